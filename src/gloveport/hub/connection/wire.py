"""Filters the messages between the SDK's client and a server: only requested ones reach the SDK.

The SDK starts a task for each notification and each request of a server, which may send them without end, and blocks
on a peer that does not read. So of notifications only those that begin or end a subscription get through, and of
answers only those to an open request; a server's own requests are refused here; and a server that sends much else is
read slowly. An answer with so many values that the SDK would block our event loop to check it becomes an error.
"""

import logging
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Protocol, Self, TypeAlias

import anyio
import pydantic_core
from anyio import to_thread
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.inbound import mcp_param_headers
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import (
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from msgspec import Struct, field

from gloveport.hub.connection.unreadable import bad_answer, too_large
from gloveport.limits.untrusted_json import has_many_values

_MOST_CHECKED, _MOST_LISTED = 20_000, 100_000
"""Most values in an answer besides structured content, and in a page of tools: the SDK checks them one by one."""

_LARGE_BYTES = 1 << 18

_TOOLS_CHANGED = "notifications/tools/list_changed"
_OF_SUBSCRIPTIONS = ("notifications/subscriptions/acknowledged", "notifications/cancelled")
_COURTESY_SECONDS = 0.5
"""How long sending a refusal to a server's request may take before it is dropped."""

_NOISE, _PAUSE_SECONDS = 128, 0.05
"""Reading pauses after so many unrequested messages, so at most 2560 a second are read."""

_OF_THE_SDK = re.compile(r"Failed to parse (?:JSON response|SSE message)")

_log = logging.getLogger(__name__)


class Reading(Protocol):
    """The stream of messages from a server. An exception stands for data that was no message."""

    async def receive(self) -> SessionMessage | Exception: ...  # noqa: D102
    async def aclose(self) -> None: ...  # noqa: D102


class Writing(Protocol):
    """The stream of messages to a server."""

    async def send(self, item: SessionMessage, /) -> None: ...  # noqa: D102
    async def aclose(self) -> None: ...  # noqa: D102


Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[tuple[Reading, Writing]]]
"""A way to connect to a server."""

Headers: TypeAlias = Mapping[tuple[str, ...], str]
"""Arguments of a tool that have to be repeated in HTTP headers: path in the arguments → name of the header."""


class Wire(Struct, kw_only=True, eq=False):
    """Both directions of one connection.

    Attributes:
        on_change: Called when the server says that its tools have changed.
        on_end: Called, perhaps repeatedly, when nothing more can be received or sent.
        headers: Which arguments are repeated in HTTP headers, by the name of the tool.
    """

    name: str
    reading: Reading
    writing: Writing
    on_change: Callable[[], None]
    on_end: Callable[[], None]
    headers: Mapping[str, Headers] = field(default_factory=dict)
    _open: dict[RequestId, str] = field(default_factory=dict)
    """Methods of the open requests, by their ids."""
    _noise: int = 0

    async def send(self, item: SessionMessage, /) -> None:
        """Pass a message on to the server."""
        message = item.message
        if isinstance(message, JSONRPCRequest):
            self._open[coerce_request_id(message.id)] = message.method
            self._repeat_arguments(message, item)
        elif isinstance(message, JSONRPCNotification):
            if message.method == "notifications/cancelled":
                self._open.pop(coerce_request_id((message.params or {}).get("requestId", "")), None)
            await self._send_if_it_can(item)
            return
        try:
            await self.writing.send(item)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.on_end()  # a transport may fail to send while it still receives
            raise

    async def receive(self) -> SessionMessage:
        """Return the next message that passes the filter."""
        try:
            while True:
                item = await self.reading.receive()
                if not isinstance(item, Exception) and (message := await self._filter(item)) is not None:
                    return message
                await self._rest(item)
        except BaseException:
            self.on_end()
            raise

    async def _filter(self, item: SessionMessage) -> SessionMessage | None:
        match item.message:
            case JSONRPCResponse(id=number) | JSONRPCError(id=number):
                method = None if number is None else self._open.pop(coerce_request_id(number), None)
                return (
                    None
                    if number is None or method is None
                    else await _checkable(_hide_quotation(item, number), method)
                )
            case JSONRPCNotification(method=name):
                if name == _TOOLS_CHANGED:
                    self.on_change()
                if name not in _OF_SUBSCRIPTIONS:
                    return None
                await self._rest(item)
                return item
            case JSONRPCRequest() as request:
                await self._refuse(request)
                return None

    async def _refuse(self, request: JSONRPCRequest) -> None:
        """Answer a server's request: a ping gets its result, all else (a model, a person, files) is refused."""
        answer: JSONRPCResponse | JSONRPCError
        if request.method == "ping":
            answer = JSONRPCResponse(jsonrpc="2.0", id=request.id, result={})
        else:
            error = ErrorData(code=METHOD_NOT_FOUND, message="this client answers no requests of servers")
            answer = JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
        await self._send_if_it_can(SessionMessage(answer))

    async def _send_if_it_can(self, item: SessionMessage) -> None:
        """Send, or give up after a moment: a server that does not read blocks nobody."""
        with anyio.move_on_after(_COURTESY_SECONDS):
            await self.writing.send(item)

    async def _rest(self, item: SessionMessage | Exception) -> None:
        if isinstance(item, Exception) and not self._noise:
            _log.info("server %s: it sends what is no message of the protocol; that is passed over", self.name)
        self._noise += 1
        if not self._noise % _NOISE:
            await anyio.sleep(_PAUSE_SECONDS)

    def _repeat_arguments(self, message: JSONRPCRequest, item: SessionMessage) -> None:
        params = message.params or {}
        headers = self.headers.get(params.get("name", "")) if message.method == "tools/call" else None
        if headers and isinstance(item.metadata, ClientMessageMetadata) and item.metadata.headers is not None:
            item.metadata.headers.update(mcp_param_headers(headers, params.get("arguments") or {}))

    async def aclose(self) -> None:  # noqa: D102
        await self.reading.aclose()
        await self.writing.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _hide_quotation(item: SessionMessage, number: RequestId) -> SessionMessage:
    """Replace the SDK's error for an unreadable answer: it quotes the answer cut short, where no secret is found."""
    answer = item.message
    if (
        isinstance(answer, JSONRPCError)
        and answer.error.code == PARSE_ERROR
        and _OF_THE_SDK.match(answer.error.message)
    ):
        return SessionMessage(bad_answer(number, "it is no message of the protocol"), item.metadata)
    return item


async def _checkable(item: SessionMessage, method: str) -> SessionMessage:
    """Return the answer, or an error if it has too many values to be checked on the event loop."""
    answer = item.message
    if not isinstance(answer, JSONRPCResponse):
        return item
    checked = {name: value for name, value in answer.result.items() if name != "structuredContent"}
    most = _MOST_LISTED if method == "tools/list" else _MOST_CHECKED
    body = pydantic_core.to_json(checked)
    large = len(body) > _LARGE_BYTES
    if not (await to_thread.run_sync(has_many_values, body, most) if large else has_many_values(body, most)):
        return item
    return SessionMessage(too_large(answer.id, f"more than {most} values beside structured content"), item.metadata)
