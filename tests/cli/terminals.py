"""A terminal as a person has one, for tests: what is typed, what it shows, its size and its settings."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests import forked

_BYTES = 1 << 16


@dataclass
class Terminal:
    """Both sides of one.

    Attributes:
        screen: All that it was told to show.
    """

    person: int
    program: int
    screen: bytes = b""
    _seen: int = field(default=0)

    def type(self, text: str) -> None:
        os.write(self.person, text.encode())

    def see(self, pattern: str, seconds: float = 20.0) -> "re.Match[bytes]":
        """Wait until it shows something behind what was seen last."""
        deadline = time.monotonic() + seconds
        while not (found := re.compile(pattern.encode()).search(self.screen, self._seen)):
            left = deadline - time.monotonic()
            assert left > 0, f"no {pattern!r} in {self.screen[self._seen :]!r}"
            self.take(left)
        self._seen = found.end()
        return found

    def take(self, seconds: float = 0.0) -> None:
        """Show what is there."""
        if select.select([self.person], [], [], seconds)[0]:
            with contextlib.suppress(OSError):
                self.screen += os.read(self.person, _BYTES)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.person, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def settings(self) -> list:
        return termios.tcgetattr(self.program)


@contextlib.contextmanager
def open_terminal() -> Iterator[Terminal]:
    """One of 24 rows and 80 columns."""
    person, program = pty.openpty()
    try:
        terminal = Terminal(person, program)
        terminal.resize(24, 80)
        yield terminal
    finally:
        os.close(person)
        os.close(program)


def lines_on_terminal(environ: Mapping[str, str], *command: str) -> list[str]:
    """What a command of Gloveport shows on a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        forked.command("gloveport", *command), env={**os.environ, "COLUMNS": "80", **environ}, stdout=theirs
    ) as process:
        os.close(theirs)
        shown = b"".join(iter(lambda: _read(ours), b"")).decode()
    os.close(ours)
    assert process.returncode == 0, shown
    return shown.splitlines()


def columns_of(line: str) -> int:
    """How many columns of a terminal it takes."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in line)


def _read(terminal: int) -> bytes:
    """What it has next; nothing when nobody writes to it any more."""
    try:
        return os.read(terminal, _BYTES)
    except OSError:
        return b""
