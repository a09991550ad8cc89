"""Writes lines to a pipe that somebody else reads, each whole, without waiting where there is room."""

import contextlib
import select
from io import FileIO

import anyio
from msgspec import Struct, field


class LineWriter(Struct, kw_only=True):
    """What the client is sent, one line a message."""

    file: FileIO
    _turn: anyio.Lock = field(default_factory=lambda: anyio.Lock(fast_acquire=True))
    _ended: bool = False

    def end(self) -> None:
        """Begin no more lines."""
        self._ended = True

    async def send_line(self, line: bytes) -> None:
        """Send a line, unless the client does not read any more."""
        with contextlib.suppress(anyio.BrokenResourceError):  # then nothing more will come either
            await self.write(line)

    def write_now(self, line: bytes) -> bool:
        """Write a short line where there is room for it: whether there was."""
        if self._ended or self._turn.locked() or len(line) > select.PIPE_BUF or not self._has_room():
            return False
        with contextlib.suppress(OSError):  # the client does not read any more
            self.file.write(line)
        return True

    async def write(self, line: bytes) -> None:
        """Write a line, when those before are written.

        Raises:
            BrokenResourceError: The client does not read any more.
        """
        try:
            async with self._turn:
                if self._ended:
                    return
                await self._room()
                with anyio.CancelScope(shield=True):  # half a line would spoil the next one
                    await self._write(memoryview(line))
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def _write(self, data: memoryview) -> None:
        """Write all of it; there is room for the beginning."""
        # The pipe is the client's as well, so it is not ours to make it one that does not block. But where there is
        # room, there is room for this much.
        while data := data[self.file.write(data[: select.PIPE_BUF]) or 0 :]:
            await self._room()

    async def _room(self) -> None:
        if not self._has_room():
            await anyio.wait_writable(self.file)

    def _has_room(self) -> bool:
        poll = select.poll()
        poll.register(self.file, select.POLLOUT)
        return bool(poll.poll(0))
