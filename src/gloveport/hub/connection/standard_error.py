"""Reads the standard error of a server: logs a little of it, and keeps the end for the error that follows."""

import logging
import os
from collections.abc import Callable

import anyio
from msgspec import Struct, field

from gloveport.untrusted_text import printable

_CHUNK_BYTES = 1 << 16
_LOG_PAUSE_SECONDS = 0.05
_LOGGED_LINES, _LOGGED_CHARS = 10, 500
"""Most lines that are logged of the output within one pause, and most characters of each."""

_TAIL_BYTES, _TAIL_CHARS = 1 << 16, 1000
"""Bytes of the end to keep, and characters to show: the difference is longer than any form of a secret."""

_log = logging.getLogger(__name__)


class StandardError(Struct, eq=False):
    """The standard error of a server: a little of it goes to the log, its end into the error when the server fails.

    It is read slowly, so that a flood costs next to nothing, but to its end, so that no server blocks on a full pipe.
    """

    name: str
    clean: Callable[[str], str]
    over: anyio.Event = field(default_factory=anyio.Event)
    _tail: bytes = b""
    _line: bytes = b""
    _skips: bool = False
    """Whether to skip the rest of the current line, whose beginning was logged already."""

    async def read(self, descriptor: int) -> None:
        """Read until it is closed."""
        while True:
            await anyio.wait_readable(descriptor)
            chunk = os.read(descriptor, _CHUNK_BYTES)
            if not chunk:
                break
            self._tail = (self._tail + chunk)[-_TAIL_BYTES:]
            if _log.isEnabledFor(logging.INFO):
                self._report(chunk)
            await anyio.sleep(_LOG_PAUSE_SECONDS)
        self._report(b"\n")
        self.over.set()

    def _report(self, chunk: bytes) -> None:
        whole, feed, self._line = (self._line + chunk).rpartition(b"\n")
        if feed and self._skips:  # the rest of a logged line may begin in the middle of a secret
            whole, self._skips = whole.partition(b"\n")[2], False
        if len(self._line) > _TAIL_BYTES:
            whole, feed = (b"", b"") if self._skips else (whole + feed + self._line, b"\n")
            self._line, self._skips = b"", True
        # The whole text before it is split: a secret may have several lines.
        lines = [line for line in self.clean(whole.decode(errors="replace")).split("\n") if line.strip()]
        for line in lines[:_LOGGED_LINES]:
            _log.info("server %s: %s", self.name, printable(line[:_LOGGED_CHARS]))
        if feed and len(lines) > _LOGGED_LINES:
            _log.info("server %s: %d more lines", self.name, len(lines) - _LOGGED_LINES)

    @property
    def last_words(self) -> str:
        """The end of the server's output, to follow a sentence; empty if there was none."""
        # Far less than was kept is shown: a secret that was cut at the kept text's beginning is not found.
        text = self.clean(self._tail.decode(errors="replace")).strip()[-_TAIL_CHARS:]
        return f" It said: {printable(text)}" if text else ""
