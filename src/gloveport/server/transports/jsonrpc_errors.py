"""Makes JSON-RPC errors for messages that the SDK never sees: else a client would wait for ever."""

import json
from typing import Final

import pydantic_core

MAX_LINE_BYTES: Final = 16 << 20
MOST_VALUES: Final = 20_000
"""Most values in one message of a client: parsing, checking and copying a million takes seconds."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INTERNAL_ERROR: Final = -32603


def _error(request_id: str | int | None, code: int, words: str) -> bytes:
    error = {"code": code, "message": words}
    return pydantic_core.to_json({"jsonrpc": "2.0", "id": request_id, "error": error}) + b"\n"


TOO_LONG: Final = _error(None, INVALID_REQUEST, f"a message of more than {MAX_LINE_BYTES} bytes is not read")
TOO_MANY: Final = _error(None, INVALID_REQUEST, f"a message of more than {MOST_VALUES} values is not read")
NO_MESSAGE: Final = _error(
    None, INVALID_REQUEST, "the body is no message of JSON-RPC 2.0: one object with a method and its id"
)
WRONG_ENCODING: Final = _error(None, PARSE_ERROR, "a message has to be JSON in UTF-8")
NO_REPLAY: Final = _error(None, INVALID_REQUEST, "no stream can be resumed: leave out Last-Event-ID")
TOO_BUSY: Final = _error(None, INTERNAL_ERROR, "the server has too many requests at once: come again in a second")

ENDING: Final = _error(None, INTERNAL_ERROR, "the server ends, and has ended this request: send it again in a while")


def answer_to(line: bytes) -> bytes | None:
    """Make the line that answers a broken message, or a request whose id is none; None if it is no request.

    The answer has the message's ``id`` if one can be read, also of text that only Python accepts as JSON: half of a
    surrogate pair, NaN.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return _error(None, PARSE_ERROR, "this line is no JSON")
    if not isinstance(message, dict):
        return _error(None, INVALID_REQUEST, "this line is no message of JSON-RPC 2.0")
    request_id = message.get("id")
    if "result" in message or "error" in message:
        return None
    if "method" in message and ("id" not in message or (request_id is None and is_notification(message["method"]))):
        return None
    return _error(
        _usable_id(request_id),
        INVALID_REQUEST,
        "this line is no message of JSON-RPC 2.0, or holds what is no Unicode",
    )


def find_answered(line: bytes) -> str | int | None:
    """Return the ``id`` of a broken message that can be an answer; None if it has none, or is a request."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not message.keys().isdisjoint({"method", "params"}):
        return None
    return _usable_id(message.get("id"))


def render_malformed(request: str | int) -> bytes:
    """Make the line that stands for a client's broken answer: else our request would wait for another one."""
    return _error(request, INVALID_REQUEST, "the answer is malformed")


def is_notification(method: object) -> bool:
    """Whether a method is a notification's: clients that give one an ``id`` of null wait for no answer."""
    return isinstance(method, str) and method.startswith("notifications/")


def render_failure(request: str | int) -> bytes:
    """Make the line that answers a request which met our own fault."""
    return _error(request, INTERNAL_ERROR, "the server has met a fault: its log says which")


def render_refusal(request: str | int, why: str) -> bytes:
    """Make the line that answers a request which this host can't serve."""
    return _error(request, INTERNAL_ERROR, why)


def _usable_id(request_id: object) -> str | int | None:
    """The id, if it can be sent back."""
    if isinstance(request_id, str | int) and not isinstance(request_id, bool) and _is_plain(request_id):
        return request_id
    return None


def _is_plain(name: str | int) -> bool:
    """Whether an id can be sent back unchanged."""
    return name.isprintable() and len(name) <= 256 if isinstance(name, str) else abs(name) < 1 << 63
