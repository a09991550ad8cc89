"""Serves an application over HTTP in the process of a test."""

import contextlib
import socket
from collections.abc import AsyncIterator

import anyio
import uvicorn
from starlette.types import ASGIApp


@contextlib.asynccontextmanager
async def serve_app(app: ASGIApp) -> AsyncIterator[str]:
    """Serve an application; gives the URL of its ``/mcp``."""
    web = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none", timeout_graceful_shutdown=1))
    async with serve(web, socket.create_server(("127.0.0.1", 0))) as port:
        yield f"http://127.0.0.1:{port}/mcp"


@contextlib.asynccontextmanager
async def serve(web: uvicorn.Server, listener: socket.socket) -> AsyncIterator[int]:
    """Serve until the context is left; gives the port.

    It is not cancelled where a test fails: the event loop would still know the listener. That hides the next descriptor
    with its number, and whoever waits for that one, in a later test, hangs.
    """
    ended = anyio.Event()

    async def serve_until_end() -> None:
        try:
            await web.serve([listener])
        finally:
            ended.set()

    with listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve_until_end)
            try:
                yield listener.getsockname()[1]
            finally:
                web.should_exit = True
                with anyio.CancelScope(shield=True):
                    await ended.wait()
