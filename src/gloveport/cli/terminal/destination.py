"""Writes the output of a program in a sandbox to one of our own streams."""

import contextlib
import os
import select
from typing import TYPE_CHECKING, Final

import anyio
from msgspec import Struct, field

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
    """Where output goes, without the secrets that we know of.

    Attributes:
        descriptor: Its number.
        filter: What may reach it; None where it is no terminal.
        vault: Knows the secrets.
        is_holding: Whether some of what was written is held back, since it may go on with the rest of a secret.
    """

    descriptor: int
    filter: OutputFilter | None
    vault: Vault
    is_holding: bool = False
    _scrubber: "Scrubber | None" = None
    _turn: anyio.Lock = field(default_factory=anyio.Lock)
    _own: int = -1

    def __post_init__(self) -> None:
        self._own = reopen(self.descriptor, os.O_WRONLY)

    async def write(self, data: bytes) -> None:
        """Write what may be written. Waits where nobody takes it. To a person nothing is held back.

        Raises:
            OSError: Nobody will.
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
        """Write what was held back.

        Raises:
            OSError: As ``write``.
        """
        if self._scrubber is not None:
            rest, self._scrubber, self.is_holding = self._scrubber.finish(), None, False
            await self._pass(rest)

    async def say(self, line: str) -> None:
        """Write a line of ours; where the program has the screen for itself, ring the bell instead.

        Raises:
            OSError: As ``write``.
        """
        if self.filter is None:
            await self._write(line.encode() + b"\n")
        else:
            await self._write(_BELL if self.filter.is_full_screen else _RETURN + line.encode() + _RETURN)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self.filter is not None:
            with contextlib.suppress(OSError):  # nobody is there, or takes it
                os.write(self._own, self.filter.finish())
        if self._own != self.descriptor:
            os.close(self._own)

    async def _pass(self, data: bytes) -> None:
        await self._write(data if self.filter is None else self.filter.feed(data))

    async def _write(self, data: bytes) -> None:
        left = memoryview(data)
        async with self._turn:
            while left:
                left = left[await self._write_some(left) :]

    async def _write_some(self, data: memoryview) -> int:
        if self._own == self.descriptor:
            with contextlib.suppress(PermissionError):  # a plain file, which never makes anybody wait
                await anyio.wait_writable(self._own)
            # What could not be opened anew would block us when it is given more than it has room for.
            return os.write(self._own, data[: select.PIPE_BUF])
        try:
            return os.write(self._own, data)
        except BlockingIOError:
            await anyio.wait_writable(self._own)
            return 0
