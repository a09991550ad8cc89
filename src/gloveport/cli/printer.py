"""Prints a run's output in order, without blocking the run."""

import contextlib
import math
import os
import select
import sys
from collections.abc import AsyncIterator, Callable, Collection

import anyio
from msgspec import Struct, field

from gloveport.server.rendering.plain_stream import PlainStream

STDOUT, STDERR = 1, 2


class Printer(Struct, kw_only=True):
    """Standard output and error of a process.

    Attributes:
        write: Queues bytes for a descriptor, without waiting.
        failure: Why output, or a file of ``--out``, can't be written, such as a closed pipe or a full disk.
    """

    write: Callable[[int, bytes], None]
    encoding: str
    failure: OSError | None = None
    _terminals: dict[int, PlainStream] = field(default_factory=dict)
    _open_line: dict[int, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, write: Callable[[int, bytes], None], encoding: str, terminals: Collection[int]) -> "Printer":
        """Make a printer; ``terminals`` are the descriptors that are terminals."""
        return cls(write=write, encoding=encoding, _terminals={number: PlainStream() for number in terminals})

    def put(self, descriptor: int, text: str) -> None:
        """Queue text; for a terminal, without escape sequences."""
        if descriptor in self._terminals:
            text = self._terminals[descriptor].feed(text)
        if text:
            self._open_line[descriptor] = not text.endswith("\n")
            self.write(descriptor, text.encode(self.encoding, "backslashreplace"))

    def put_line(self, descriptor: int, text: str) -> None:
        """Queue text on a line of its own."""
        if descriptor in self._terminals:  # an unfinished escape sequence of the program must not swallow our text
            self._terminals[descriptor] = PlainStream()
        self.put(descriptor, "\n" * (self._open_line.get(descriptor, False)) + text + "\n")


@contextlib.asynccontextmanager
async def printing(scope: anyio.CancelScope) -> AsyncIterator[Printer]:
    """Open the printer of this process. Leaving the context writes all queued text; a failure cancels ``scope``."""
    queue, pending = anyio.create_memory_object_stream[tuple[int, bytes]](math.inf)

    def write_later(descriptor: int, data: bytes) -> None:
        with contextlib.suppress(anyio.BrokenResourceError):  # the writer has failed, and sets ``failure``
            queue.send_nowait((descriptor, data))

    terminals = [descriptor for descriptor in (STDOUT, STDERR) if os.isatty(descriptor)]
    printer = Printer.of(write_later, sys.stdout.encoding if sys.stdout else "utf-8", terminals)

    async def write() -> None:
        try:
            async with pending:
                async for descriptor, data in pending:
                    await _write(descriptor, data)
        except OSError as error:
            printer.failure = error
            scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        with queue:
            yield printer


async def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        with contextlib.suppress(PermissionError):  # epoll refuses plain files, which never block
            await anyio.wait_writable(descriptor)
        # A writable pipe takes PIPE_BUF bytes without blocking; O_NONBLOCK would affect its other users too.
        view = view[os.write(descriptor, view[: select.PIPE_BUF]) :]
