"""ASGI middleware that refuses a message with very many values, or in another encoding, before it is parsed.

A request to resume a stream is refused, too: our events have no ids, and the SDK would not answer at all. A parser that
accepts UTF-16 too would find more values in it than were counted. JSON that is no message at all is
refused here too: the SDK would answer with all that its types have to say about it. In a session, a malformed answer to
our own request goes to the SDK as an error instead: else the request would wait for another answer.
"""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gloveport.fairness import compute
from gloveport.limits.untrusted_json import has_many_values
from gloveport.server.transports import jsonrpc_errors

_BAD_REQUEST: Final = 400
_TOO_LARGE: Final = 413


class _Envelope(Struct):
    """What every message of JSON-RPC has."""

    jsonrpc: Literal["2.0"]
    id: str | int | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: dict[str, Raw] | None = None
    result: dict[str, Raw] | UnsetType = UNSET
    error: dict[str, Raw] | UnsetType = UNSET


class MessageLimit(Struct, frozen=True, kw_only=True):
    """Counts the values in the bodies of requests. The application behind it limits their size.

    Attributes:
        most_bytes: So much of a body is looked at; ``app`` refuses longer ones.
    """

    app: ASGIApp
    most_bytes: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http" or scope["method"] != "POST":
            resumes = scope["type"] == "http" and "last-event-id" in Headers(scope=scope)
            no_replay = Response(jsonrpc_errors.NO_REPLAY, _BAD_REQUEST, media_type="application/json")
            await (no_replay if resumes else self.app)(scope, receive, send)
            return
        body, receive_again = await peek_body(scope, receive, self.most_bytes)
        if (refusal := await _find_refusal(body)) is None:
            await self.app(scope, receive_again, send)
            return
        text, status = refusal
        answered = jsonrpc_errors.find_answered(body) if text is jsonrpc_errors.NO_MESSAGE else None
        if answered is not None and "mcp-session-id" in Headers(scope=scope):
            error: Message = {"type": "http.request", "body": jsonrpc_errors.render_malformed(answered)}
            await self.app(scope, _receive_first([error], receive), send)
        else:
            await Response(text, status, media_type="application/json")(scope, receive, send)


async def _find_refusal(body: bytes) -> tuple[bytes, int] | None:
    """The answer to a body that is not to be parsed, and its status; None if the application may have it."""
    if b"\0" in body:  # as in each JSON text in UTF-16 or UTF-32, and in none in UTF-8
        return jsonrpc_errors.WRONG_ENCODING, _BAD_REQUEST
    if await compute(len(body), has_many_values, body, jsonrpc_errors.MOST_VALUES):
        return jsonrpc_errors.TOO_MANY, _TOO_LARGE
    return (jsonrpc_errors.NO_MESSAGE, _BAD_REQUEST) if await compute(len(body), _is_other_json, body) else None


async def peek_body(scope: Scope, receive: Receive, most_bytes: int) -> tuple[bytes, Receive]:
    """Read the body of a request, up to little more than ``most_bytes``; return it and a ``receive`` that repeats it.

    Nothing is read if ``content-length`` is larger: the application refuses the request before its body comes.

    Raises:
        ClientDisconnect: The client has gone before all of it came.
    """
    length = Headers(scope=scope).get("content-length", "")
    if length.isdecimal() and int(length) > most_bytes:
        return b"", receive
    messages = [await receive()]
    size = len(messages[0].get("body", b""))
    while messages[-1].get("more_body") and size <= most_bytes:
        messages.append(await receive())
        size += len(messages[-1].get("body", b""))
    if messages[-1]["type"] == "http.disconnect":
        raise ClientDisconnect
    return b"".join(message.get("body", b"") for message in messages), _receive_first(messages, receive)


def _receive_first(messages: Iterable[Message], receive: Receive) -> Receive:
    """Make a ``receive`` that returns these messages first."""
    first = iter(messages)

    async def receive_again() -> Message:
        message = next(first, None)
        return await receive() if message is None else message

    return receive_again


def _is_other_json(body: bytes) -> bool:
    """Whether a body is JSON, but no message of JSON-RPC. What is no JSON the SDK refuses in few words."""
    try:
        message = msgspec.json.decode(body, type=_Envelope)
    except msgspec.ValidationError:
        return True
    except (msgspec.DecodeError, RecursionError):
        return False
    if message.method is UNSET:
        return message.result is UNSET and message.error is UNSET
    # The SDK would take it for a notification, and not answer.
    return message.id is None and not jsonrpc_errors.is_notification(message.method)
