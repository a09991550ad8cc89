"""Cancels the work of an HTTP request whose client has disconnected."""

import contextlib
from collections.abc import AsyncIterator
from typing import Final

import anyio
from starlette.requests import Request as HttpRequest

_LOOK_SECONDS: Final = 0.5


@contextlib.asynccontextmanager
async def ended_with(request: object, scope: anyio.CancelScope) -> AsyncIterator[None]:
    """Cancel a scope when the client of an HTTP request disconnects: nobody can get the answer.

    In the handshake protocols the SDK lets the work go on when the connection closes.
    """
    if not isinstance(request, HttpRequest):
        yield
        return
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_when_gone, request, scope)
        yield
        tasks.cancel_scope.cancel()


async def _cancel_when_gone(request: HttpRequest, scope: anyio.CancelScope) -> None:
    while True:
        if await request.is_disconnected():
            scope.cancel()
        await anyio.sleep(_LOOK_SECONDS)
