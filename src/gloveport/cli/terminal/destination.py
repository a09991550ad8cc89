"""Writes the output of a program in a sandbox to one of our own streams."""

import contextlib
import os
import select
from typing import TYPE_CHECKING, Final

import anyio
from msgspec import Struct, field

from gloveport.cli.terminal.front import STRING_END, write_last
from gloveport.cli.terminal.output_filter import OutputFilter
from gloveport.cli.terminal.own_descriptors import reopen
from gloveport.late_module import late_module
from gloveport.secrets.vault import Vault

if TYPE_CHECKING:
    from gloveport.secrets import scrub
    from gloveport.secrets.scrub import Scrubber
else:
    scrub = late_module("gloveport.secrets.scrub")

_RETURN: Final = b"\r\n"
_BELL: Final = b"\x07"


class Destination(Struct, eq=False, kw_only=True):
    """One of our streams, to which scrubbed output is written.

    Attributes:
        filter: The filter for a terminal; None for any other stream.
        is_holding: Whether output is held back, since it may be the beginning of a secret.
    """

    descriptor: int
    filter: OutputFilter | None
    vault: Vault
    is_holding: bool = False
    _scrubber: "Scrubber | None" = None
    _turn: anyio.Lock = field(default_factory=anyio.Lock)
    _own: int = -1
    _is_cut: bool = False
    """Whether a part of the last output is not written, perhaps from the middle of a sequence on."""

    def __post_init__(self) -> None:
        self._own = reopen(self.descriptor, os.O_WRONLY)

    async def write(self, data: bytes) -> None:
        """Scrub and write output; waits for a slow reader. For a terminal nothing is held back.

        Raises:
            OSError: The stream's reader is gone.
        """
        if not self.vault.is_empty:
            needles = self.vault.needles
            self._scrubber = self._scrubber or scrub.Scrubber(needles)
            self._scrubber.renew(needles)
            data, self.is_holding = self._scrubber.feed(data), True
        await self._pass(data)
        if self.filter is not None:
            await self.flush()

    async def flush(self) -> None:
        """Write the held-back output. Raises OSError as ``write``."""
        if self._scrubber is not None:
            rest, self._scrubber, self.is_holding = self._scrubber.finish(), None, False
            await self._pass(rest)

    async def say(self, line: str) -> None:
        """Write a line of ours; if the program uses the full screen, ring the bell instead.

        Raises:
            OSError: As ``write``.
        """
        if self.filter is None:
            await self._write(line.encode() + b"\n")
        else:
            text = _BELL if self.filter.is_full_screen else _RETURN + line.encode() + _RETURN
            await self._write(self.filter.interrupt() + text)

    def close(self) -> None:
        """Restore the terminal's state."""
        if self.filter is not None:
            with contextlib.suppress(OSError):  # the terminal is gone, or accepts nothing
                write_last(self._own, (STRING_END if self._is_cut else b"") + self.filter.finish())
        if self._own != self.descriptor:
            os.close(self._own)

    async def _pass(self, data: bytes) -> None:
        await self._write(data if self.filter is None else self.filter.feed(data))

    async def _write(self, data: bytes) -> None:
        remaining_data = memoryview(data)
        self._is_cut = True
        async with self._turn:
            while remaining_data:
                remaining_data = remaining_data[await self._write_some(remaining_data) :]
        self._is_cut = False

    async def _write_some(self, data: memoryview) -> int:
        if self._own == self.descriptor:
            with contextlib.suppress(PermissionError):  # epoll refuses plain files, which never block
                await anyio.wait_writable(self._own)
            # A stream that could not be reopened may be blocking; when it is writable, it has room for PIPE_BUF bytes.
            return os.write(self._own, data[: select.PIPE_BUF])
        try:
            return os.write(self._own, data)
        except BlockingIOError:
            await anyio.wait_writable(self._own)
            return 0
