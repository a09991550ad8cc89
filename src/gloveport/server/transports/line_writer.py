"""Writes whole lines to the client's pipe, without waiting while the pipe has room."""

import contextlib
import select
from io import FileIO

import anyio
from msgspec import Struct, field


class LineWriter(Struct, kw_only=True):
    """Writes messages to the client, one a line."""

    file: FileIO
    _turn: anyio.Lock = field(default_factory=lambda: anyio.Lock(fast_acquire=True))
    _ended: bool = False

    def end(self) -> None:
        """Write no more lines."""
        self._ended = True

    async def send_line(self, line: bytes) -> None:
        """Write a line; drop it if the client has closed the pipe."""
        with contextlib.suppress(anyio.BrokenResourceError):  # the client will send nothing more either
            await self.write(line)

    def write_now(self, line: bytes) -> bool:
        """Write a short line if the pipe has room for it; return whether it had."""
        if self._ended or self._turn.locked() or len(line) > select.PIPE_BUF or not self._has_room():
            return False
        with contextlib.suppress(OSError):  # the client does not read any more
            self.file.write(line)
        return True

    async def write(self, line: bytes) -> None:
        """Write a line, after the lines before it. Raises BrokenResourceError if the client has closed the pipe."""
        try:
            async with self._turn:
                if self._ended:
                    return
                await self._room()
                with anyio.CancelScope(shield=True):  # half a line would corrupt the next one
                    await self._write(memoryview(line))
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def _write(self, data: memoryview) -> None:
        """Write all data; the pipe has room for its beginning."""
        # O_NONBLOCK would be set for other users of the pipe too, so it stays blocking. But a writable pipe has room
        # for PIPE_BUF bytes.
        while data := data[self.file.write(data[: select.PIPE_BUF]) or 0 :]:
            await self._room()

    async def _room(self) -> None:
        if not self._has_room():
            await anyio.wait_writable(self.file)

    def _has_room(self) -> bool:
        poll = select.poll()
        poll.register(self.file, select.POLLOUT)
        return bool(poll.poll(0))
