"""Serves one client over standard input and output. When the input ends, the server ends, and every run with it.

The SDK reads standard input in a thread that nothing can interrupt. So it is given a pipe, and what the client sends is
passed on to it from here: a signal closes the pipe, and all ends as it does when the client goes away.
"""

import contextlib
import os
from io import FileIO
from signal import Signals
from typing import Any

import anyio
from mcp.server import MCPServer

from gloveport.server.signals import on_end_signal

_CHUNK_BYTES = 1 << 16


async def serve_stdio(server: MCPServer[Any]) -> list[Signals]:
    """Serve until the client closes its end or a signal comes; return the signals. Takes standard input for good."""
    passing = anyio.CancelScope()
    with FileIO(os.dup(0)) as client, _pipe_for_input() as pipe, on_end_signal(passing.cancel) as came:

        async def pass_on() -> None:
            with passing:
                await _copy(client, pipe)
            pipe.close()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pass_on)
            await server.run_stdio_async()
            tasks.cancel_scope.cancel()
    return came


def _pipe_for_input() -> FileIO:
    """Put the reading end of a new pipe in the place of standard input; return the writing end."""
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    os.close(reading)
    os.set_blocking(writing, False)
    return FileIO(writing, "w")


async def _copy(source: FileIO, sink: FileIO) -> None:
    """Pass bytes on until the source ends."""
    while data := await _read(source):
        view = memoryview(data)
        while view:
            view = view[sink.write(view) or 0 :]
            if view:
                await anyio.wait_writable(sink)


async def _read(source: FileIO) -> bytes:
    with contextlib.suppress(PermissionError):  # a plain file: epoll takes none, and reading it does not wait
        await anyio.wait_readable(source)
    return os.read(source.fileno(), _CHUNK_BYTES)
