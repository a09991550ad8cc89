"""Prints a run's output in the order it comes, without making the run wait."""

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
        write: Takes what is to be written to a descriptor. Does not wait.
        encoding: How that process writes text.
        failure: Why nothing can be written any more: a closed pipe, a full disk.
    """

    write: Callable[[int, bytes], None]
    encoding: str
    failure: OSError | None = None
    _terminals: dict[int, PlainStream] = field(default_factory=dict)
    _open_line: dict[int, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, write: Callable[[int, bytes], None], encoding: str, terminals: Collection[int]) -> "Printer":
        """One whose descriptors among ``terminals`` are terminals."""
        return cls(write=write, encoding=encoding, _terminals={number: PlainStream() for number in terminals})

    def put(self, descriptor: int, text: str) -> None:
        """Queue text; without escape sequences where a terminal would obey them."""
        if descriptor in self._terminals:
            text = self._terminals[descriptor].feed(text)
        if text:
            self._open_line[descriptor] = not text.endswith("\n")
            self.write(descriptor, text.encode(self.encoding, "backslashreplace"))

    def put_line(self, descriptor: int, text: str) -> None:
        """Queue text on a line of its own."""
        if descriptor in self._terminals:  # what the program left open must not swallow what we say
            self._terminals[descriptor] = PlainStream()
        self.put(descriptor, "\n" * (self._open_line.get(descriptor, False)) + text + "\n")


@contextlib.asynccontextmanager
async def printing(scope: anyio.CancelScope) -> AsyncIterator[Printer]:
    """That of this process; on leaving, all that was put is written. What can't be written cancels ``scope``."""
    queue, pending = anyio.create_memory_object_stream[tuple[int, bytes]](math.inf)

    def write_later(descriptor: int, data: bytes) -> None:
        with contextlib.suppress(anyio.BrokenResourceError):  # nobody takes it, and ``failure`` is about to say so
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
        with contextlib.suppress(PermissionError):  # a plain file: epoll takes none, and writing to it does not wait
            await anyio.wait_writable(descriptor)
        # A pipe that takes anything takes so much without waiting; it is not ours to make non-blocking.
        view = view[os.write(descriptor, view[: select.PIPE_BUF]) :]
