"""The protocol between a program's stubs and the host on a door: one request, one answer.

    program → host   {"id": 7, "op": "call", …}
    host → program   {"id": 7, "value": …}   or   {"id": 7, "error": {"code", "message", "hint", "detail"}}
    program → host   {"id": 7, "op": "cancel"}   nobody waits for 7 any more; neither is answered

A frame is four bytes of length, most significant first, and JSON in UTF-8. Answers come in any order. Nothing that a
program sends is believed: the socket tells who it is, and a malformed frame ends the connection.
"""

import asyncio
import functools
import json
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias, cast

import anyio

from gloveport.errors import Denied, GuestError, UpstreamError
from gloveport.fairness import compute
from gloveport.late_libraries import pydantic_core
from gloveport.limits.untrusted_json import has_infinity, has_many_values
from gloveport.model.json_value import JsonValue

DoorRequest: TypeAlias = Mapping[str, JsonValue]
Handler: TypeAlias = Callable[[DoorRequest], Awaitable[JsonValue]]
"""Handles one kind of request, and returns the answer's value. Raises ``Denied`` or ``UpstreamError``."""

HEAD_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 8 << 20
"""Of a request."""

_MOST_VALUES = 50_000
"""JSON values in a request: each is parsed, checked, copied and written again, partly while the event loop waits."""

_AT_ONCE = 128
"""Requests of one execution that are handled at the same time; others wait in their sockets."""

_CANCEL: Final = "cancel"

_INFINITE: Final[Mapping[str, JsonValue]] = {
    "error": {
        "code": "malformed_call",
        "message": "In the request is a number too large to be one, such as 1e999.",
        "hint": "Send a smaller one, or a text.",
    }
}

_log = logging.getLogger(__name__)


class Room:
    """The budget of unanswered requests of one execution, over all of its connections.

    Without room, a request stays in the program's socket. So others get turns of the event loop after a few requests,
    and not only after those of all connections.
    """

    def __init__(self) -> None:
        self._bytes, self._places = MAX_FRAME_BYTES, _AT_ONCE
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, size: int, on_room: Callable[[], None]) -> bool:
        """Take a place, and room for a request of this size. If there is too little, ``on_room`` is called later."""
        if self._places and size <= self._bytes:
            self._bytes, self._places = self._bytes - size, self._places - 1
            return True
        self._waiting.append(on_room)
        return False

    def give_back(self, size: int) -> None:
        """Give back the room of a request that was answered, or never came whole."""
        self._bytes, self._places = self._bytes + size, self._places + 1
        for _ in range(len(self._waiting)):
            if not self._places:
                break
            self._waiting.popleft()()


async def answer(handlers: Mapping[str, Handler], room: Room, connection: socket.socket) -> None:
    """Answer the requests on one connection, each by the handler of its operation, until the program closes it; cancel
    unfinished ones then, and close the connection.
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    host = _Host(handlers, room)
    transport, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: host, connection)
    try:
        await host.closed.wait()
    finally:
        transport.abort()
        with anyio.CancelScope(shield=True):
            await host.give_up()


class _Host(asyncio.Protocol):
    """The host's end. A protocol, not streams: each turn of the event loop saved is a tenth of a short call."""

    def __init__(self, handlers: Mapping[str, Handler], room: Room) -> None:
        self._handlers = handlers
        self._room = room
        self._reserved_bytes: int | None = None  # room taken for the request that is being received
        self._waits = False  # for room
        self._received = bytearray()
        self._works: dict[asyncio.Task[None], anyio.CancelScope] = {}
        self._scopes: dict[int, anyio.CancelScope] = {}  # by the ids of the requests
        self._takes_answers = asyncio.Event()
        self._takes_answers.set()
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's
        self.closed.set()
        self._takes_answers.set()
        if self._reserved_bytes is not None:
            self._room.give_back(self._reserved_bytes)

    def pause_writing(self) -> None:
        self._takes_answers.clear()

    def resume_writing(self) -> None:
        self._takes_answers.set()

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._begin()

    async def give_up(self) -> None:
        """Cancel the requests in progress, and wait until they have ended."""
        self.closed.set()  # or one that waits for room would begin when others give up theirs
        for scope in self._works.values():
            scope.cancel()  # not the task: what must not be abandoned half-way is shielded from a scope alone
        if self._works:
            await asyncio.wait(self._works)

    def _begin(self) -> None:
        """Start handling the requests that have come whole, as many as have room."""
        try:
            while self._has_room() and (body := self._take_request()) is not None:
                assert self._reserved_bytes is not None  # noqa: S101 - of a request with a head
                scope = anyio.CancelScope()
                work = asyncio.create_task(self._work(body, scope))
                self._works[work] = scope
                work.add_done_callback(functools.partial(self._end, self._reserved_bytes))
                self._reserved_bytes = None
        except GuestError:
            self._transport.abort()  # as below

    def _has_room(self) -> bool:
        """Whether there is room for the request that comes now."""
        size = _size(self._received)
        if self._reserved_bytes is not None or size is None or size > MAX_FRAME_BYTES:
            return True
        if not self._waits and self._room.take(size, self._go_on):
            self._reserved_bytes = size
            return True
        self._waits = True
        self._transport.pause_reading()
        return False

    def _take_request(self) -> bytearray | None:
        """Take out the first request, without a copy: it may be large; None where it has not come whole.

        Raises:
            GuestError: It is too large.
        """
        size = _size(self._received)
        if size is None:
            return None
        if size > MAX_FRAME_BYTES:
            raise GuestError(f"a request of {size} bytes")
        end = HEAD_BYTES + size
        if len(self._received) < end:
            return None
        body, self._received = self._received, self._received[end:]
        del body[end:], body[:HEAD_BYTES]
        return body

    def _go_on(self) -> None:
        self._waits = False
        if not self.closed.is_set():
            self._transport.resume_reading()
            self._begin()

    def _end(self, size: int, work: asyncio.Task[None]) -> None:
        self._works.pop(work, None)
        self._room.give_back(size)

    async def _work(self, body: bytearray, scope: anyio.CancelScope) -> None:
        with scope:
            try:
                request = await _read_request(body)
                number = cast("int", request["id"])
                if request.get("op") == _CANCEL:
                    if number in self._scopes:
                        self._scopes[number].cancel()
                    return
                self._scopes[number] = scope
                try:
                    is_infinite = await compute(len(body), has_infinity, request)
                    reply = _INFINITE if is_infinite else await _reply(self._handlers, request)
                finally:
                    if self._scopes.get(number) is scope:  # a program may use an id twice
                        del self._scopes[number]
                answer = _encode_reply({"id": number, **reply})
            except GuestError:
                self._transport.abort()  # after a malformed request nothing can be understood
                return
            except Exception:  # noqa: BLE001 - it concerns this connection alone
                _log.exception("a request of a sandbox went wrong")
                self._transport.abort()
                return
            await self._takes_answers.wait()
            if self.closed.is_set():  # else each answer would log a warning
                return
            self._transport.write(len(answer).to_bytes(HEAD_BYTES, "big") + answer)


def _size(received: bytearray) -> int | None:
    """Bytes of the first request without its head; None until the head has come."""
    return int.from_bytes(received[:HEAD_BYTES], "big") if len(received) >= HEAD_BYTES else None


async def _read_request(body: bytearray) -> DoorRequest:
    """A request. Raises GuestError if it is malformed, or has too many values."""
    if await compute(len(body), has_many_values, body, _MOST_VALUES):
        raise GuestError(f"a request of more than {_MOST_VALUES} values")
    try:
        request = await compute(len(body), _parse_json, body)
    except ValueError as error:
        raise GuestError("a request that is no JSON") from error
    if not isinstance(request, dict) or type(request.get("id")) is not int:
        raise GuestError("a request without an id")
    return request


def _parse_json(body: bytearray) -> JsonValue:
    parsed: JsonValue = pydantic_core.from_json(body, allow_inf_nan=False)
    return parsed


def _encode_reply(reply: Mapping[str, JsonValue]) -> bytes:
    try:
        return pydantic_core.to_json(reply, inf_nan_mode="null")  # ten times as fast; encoding blocks the event loop
    except ValueError:  # half of a surrogate pair
        return json.dumps(reply, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


async def _reply(handlers: Mapping[str, Handler], request: DoorRequest) -> dict[str, JsonValue]:
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
