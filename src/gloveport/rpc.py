"""What a program's stubs and the host say to each other on a door: one request, one answer.

    program → host   {"id": 7, "op": "call", …}
    host → program   {"id": 7, "value": …}   or   {"id": 7, "error": {"code", "message", "hint", "detail"}}

A frame is four bytes of length, most significant first, and JSON in UTF-8. Answers come in any order. Nothing that a
program sends is believed: who it is, is known from the socket; what breaks the shape ends the connection.
"""

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

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

_CHUNK_BYTES = 1 << 16
_AT_ONCE = 128
"""Requests of one connection that are worked on at the same time; others wait in the socket."""


async def answer(handlers: Mapping[str, Handler], connection: socket.socket) -> None:
    """Answer the requests on one connection until the program closes it.

    Args:
        handlers: By the name of the operation.
        connection: Does not block; another's to close.
    """
    connection.setblocking(False)  # noqa: FBT003 - the socket's own interface
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    places, sending = anyio.Semaphore(_AT_ONCE), anyio.Lock()
    async with anyio.create_task_group() as tasks:
        with contextlib.suppress(GuestError):  # nothing that it says from there on has a meaning
            while (request := await _receive(connection)) is not None:
                await places.acquire()
                tasks.start_soon(_work, handlers, request, connection, places, sending)
        tasks.cancel_scope.cancel()  # nobody is there to hear the answers


async def _receive(connection: socket.socket) -> Asked | None:
    """The next request; None at the end.

    Raises:
        GuestError: It has no shape, or is too large.
    """
    head = await _exactly(connection, HEAD_BYTES)
    if head is None:
        return None
    size = int.from_bytes(head, "big")
    if size > MAX_FRAME_BYTES:
        raise GuestError(f"a request of {size} bytes")
    body = await _exactly(connection, size)
    if body is None:
        return None
    try:
        request = pydantic_core.from_json(bytes(body), allow_inf_nan=False)
    except ValueError as error:
        raise GuestError("a request that is no JSON") from error
    if not isinstance(request, dict) or type(request.get("id")) is not int:
        raise GuestError("a request without an id")
    return request


async def _exactly(connection: socket.socket, size: int) -> bytearray | None:
    """So many bytes; None where the connection ends before. Memory grows with what has come, not with what is said."""
    loop = asyncio.get_running_loop()
    data = bytearray()
    while len(data) < size:
        chunk = await loop.sock_recv(connection, min(_CHUNK_BYTES, size - len(data)))
        if not chunk:
            return None
        data += chunk
    return data


async def _work(
    handlers: Mapping[str, Handler],
    request: Asked,
    connection: socket.socket,
    places: anyio.Semaphore,
    sending: anyio.Lock,
) -> None:
    try:
        reply = {"id": request["id"], **await _reply(handlers, request)}
        body = json.dumps(reply, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        async with sending:
            await asyncio.get_running_loop().sock_sendall(connection, len(body).to_bytes(HEAD_BYTES, "big") + body)
    finally:
        places.release()


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
