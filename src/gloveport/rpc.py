"""What a program's stubs and the host say to each other on a door: one request, one answer.

    program → host   {"id": 7, "op": "call", …}
    host → program   {"id": 7, "value": …}   or   {"id": 7, "error": {"code", "message", "hint", "detail"}}

A frame is four bytes of length, most significant first, and JSON in UTF-8. Answers come in any order. Nothing that a
program sends is believed: who it is, is known from the socket; what breaks the shape ends the connection.
"""

import asyncio
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias, cast

import anyio
import pydantic_core
from pydantic import JsonValue

from gloveport.errors import Denied, GuestError, UpstreamError

Asked: TypeAlias = Mapping[str, JsonValue]
Handler: TypeAlias = Callable[[Asked], Awaitable[JsonValue]]
"""Does what one kind of request asks for, and returns the answer's value. Raises ``Denied`` or ``UpstreamError``."""

HEAD_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 16 << 20
"""Of a request."""

_AT_ONCE = 128
"""Requests of one connection that are worked on at the same time; others wait in the socket."""

_log = logging.getLogger(__name__)


async def answer(handlers: Mapping[str, Handler], connection: socket.socket) -> None:
    """Answer the requests on one connection until the program closes it. What is being worked on then is given up.

    Args:
        handlers: By the name of the operation.
        connection: Closed on return.
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    host = _Host(handlers)
    transport, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: host, connection)
    try:
        await host.closed.wait()
    finally:
        transport.abort()
        with anyio.CancelScope(shield=True):
            await host.give_up()


class _Host(asyncio.Protocol):
    """The host's end. A protocol and no streams: each turn of the event loop less is a tenth of a short call."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._received = bytearray()
        self._works: set[asyncio.Task[None]] = set()
        self._takes_answers = asyncio.Event()
        self._takes_answers.set()
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's
        self.closed.set()
        self._takes_answers.set()

    def pause_writing(self) -> None:
        self._takes_answers.clear()

    def resume_writing(self) -> None:
        self._takes_answers.set()

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._begin()

    async def give_up(self) -> None:
        """Cancel what is being worked on, and wait until it has ended."""
        while self._works:
            for work in self._works:
                work.cancel()
            await asyncio.wait(self._works)

    def _begin(self) -> None:
        """Begin to work on the requests that have come whole, as many as have room."""
        try:
            while len(self._works) < _AT_ONCE and (request := _taken(self._received)) is not None:
                work = asyncio.create_task(self._work(request))
                self._works.add(work)
                work.add_done_callback(self._end)
        except GuestError:
            self._transport.abort()  # nothing that it says from there on has a meaning
            return
        if len(self._works) >= _AT_ONCE:
            self._transport.pause_reading()

    def _end(self, work: asyncio.Task[None]) -> None:
        if len(self._works) == _AT_ONCE:
            self._transport.resume_reading()
        self._works.discard(work)
        if self._received and not self.closed.is_set():
            self._begin()

    async def _work(self, request: Asked) -> None:
        try:
            reply = {"id": request["id"], **await _reply(self._handlers, request)}
        except Exception:  # noqa: BLE001 - it concerns this connection alone
            _log.exception("a request of a sandbox went wrong")
            self._transport.abort()
            return
        body = json.dumps(reply, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        await self._takes_answers.wait()
        self._transport.write(len(body).to_bytes(HEAD_BYTES, "big") + body)


def _taken(received: bytearray) -> Asked | None:
    """The first request, taken away; None where it has not come whole.

    Raises:
        GuestError: It has no shape, or is too large.
    """
    size = int.from_bytes(received[:HEAD_BYTES], "big")
    if size > MAX_FRAME_BYTES:
        raise GuestError(f"a request of {size} bytes")
    end = HEAD_BYTES + size
    if len(received) < max(end, HEAD_BYTES):
        return None
    try:
        request = pydantic_core.from_json(bytes(received[HEAD_BYTES:end]), allow_inf_nan=False)
    except ValueError as error:
        raise GuestError("a request that is no JSON") from error
    if not isinstance(request, dict) or type(request.get("id")) is not int:
        raise GuestError("a request without an id")
    del received[:end]
    return request


async def _reply(handlers: Mapping[str, Handler], request: Asked) -> dict[str, JsonValue]:
    operation = request.get("op")
    handler = handlers.get(operation) if isinstance(operation, str) else None
    if handler is None:
        return {"error": {"code": "unknown_operation", "message": "there is no such operation here", "hint": ""}}
    try:
        return {"value": await handler(request)}
    except Denied as denial:
        return {"error": {"code": denial.code, "message": denial.reason, "hint": denial.hint}}
    except UpstreamError as error:
        return {"error": {"code": error.code, "message": str(error.args[0]), "hint": error.hint}}
