"""Repairs messages whose text is broken, or turns them into an error for the call that waits; also what is too large.

Servers often cut a text in the middle of a character. Such an answer must not be dropped, or the call waits until its
time-out for nothing.
"""

import codecs
import re
from typing import Final

import pydantic_core
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, RequestId, jsonrpc_message_adapter

BAD_ANSWER: Final = -33001
"""The code of our error in place of an unreadable answer. Servers' codes are from -32768 to -32000."""

TOO_LARGE: Final = -33000
"""The code of our error in place of an answer that is too large."""

ASK_FOR_LESS: Final = "Ask it for less: a page, a filter, fewer fields."
"""The hint where an answer is too large."""

LOOKED_AT: Final = 4096
"""Bytes at each end of a message that are searched for its id where it is not parsed."""

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_ID = re.compile(rb'"id"\s{0,9}:\s{0,9}(-?[0-9]{1,18}|"[^"\\]{1,200}")')
_OUTCOME = re.compile(rb'"(?:result|error)"')
_SLICE_BYTES = 1 << 16
"""So much is decoded in one call, during which no other thread gets a turn."""


def read_message(line: bytes) -> SessionMessage | ValueError:
    """Parse a line as a message; an answer that can't be read becomes an error in its place."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        fault = error
    mended = mend(line)
    if mended != line:
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(mended, by_name=False))
        except ValueError:
            pass
    number, problem = _find_request(mended)
    return fault if number is None else SessionMessage(bad_answer(number, problem))


def mend(data: bytes) -> bytes:
    """Repair the text of JSON: invalid UTF-8, and half a surrogate pair, becomes U+FFFD."""
    try:
        data.decode()
    except UnicodeDecodeError:
        data = _replace_invalid(data)
    return _ESCAPE.sub(_whole, data) if _SURROGATE.search(data) else data


def _replace_invalid(data: bytes) -> bytes:
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    slices = (data[at : at + _SLICE_BYTES] for at in range(0, len(data), _SLICE_BYTES))
    return b"".join([*(decode(one).encode() for one in slices), decode(b"", final=True).encode()])


def bad_answer(number: RequestId, problem: str) -> JSONRPCError:
    """Make the error in the place of an answer to a request."""
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=BAD_ANSWER, message=problem))


def large_answer(ends: bytes, problem: str) -> SessionMessage | None:
    """Make the error in the place of an answer that is too large. ``ends``: its first bytes and its last; None where
    they do not tell which request it answers.
    """
    number = _id_near_an_end(ends)
    return None if number is None else SessionMessage(too_large(number, problem))


def too_large(number: RequestId, problem: str) -> JSONRPCError:
    """Make the error in the place of an answer to a request."""
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=TOO_LARGE, message=problem))


def is_bad_answer(item: SessionMessage) -> bool:
    """Whether an answer is an error of ``bad_answer``."""
    return isinstance(item.message, JSONRPCError) and item.message.error.code == BAD_ANSWER


def _whole(escape: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if escape["lone"] else escape[0]


def _find_request(line: bytes) -> tuple[RequestId | None, str]:
    """Find the request that an unreadable line answers, and what is wrong with the line."""
    try:
        message = pydantic_core.from_json(line)
    except ValueError:
        return _id_near_an_end(line), "it is no JSON, or nests too deeply"
    if not isinstance(message, dict) or "method" in message or message.keys().isdisjoint(("result", "error")):
        return None, ""
    number = message.get("id")
    is_id = isinstance(number, str) or type(number) is int
    return (number if is_id else None), "it has neither a result nor an error that the protocol knows"


def _id_near_an_end(line: bytes) -> RequestId | None:
    """Find the id in what no parser reads: the one before the result, else the last. A wrong id harms only this
    server's own calls.
    """
    outcome = _OUTCOME.search(line, 0, LOOKED_AT)
    before = _ID.search(line, 0, outcome.start() if outcome else LOOKED_AT)
    found = [before] if before else [*_ID.finditer(line, max(0, len(line) - LOOKED_AT))]
    if not found or not (outcome or _OUTCOME.search(line, max(0, len(line) - LOOKED_AT))):
        return None
    number: RequestId = pydantic_core.from_json(found[-1][1])
    return number
