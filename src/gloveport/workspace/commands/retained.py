"""Keeps the first and the last bytes of one stream, by their offset in the whole stream."""

import errno
import logging
import os
import tempfile
import weakref
from pathlib import Path
from typing import IO, Final

from msgspec import Struct, field

from gloveport.spooled_bytes import describe_failure

_log = logging.getLogger(__name__)

HEAD_BYTES: Final = 64 << 10
TAIL_BYTES: Final = 448 << 10


class Retained(Struct, kw_only=True, eq=False, weakref=True):
    """The kept bytes of one stream: the first in memory, the last in a file without a name.

    Attributes:
        directory: Directory of that file, which is made when needed, and gone with this object.
        total: Bytes of the whole stream so far.
        failure: Why the disk did not take some of them; empty where it has taken all.
    """

    directory: Path
    total: int = 0
    failure: str = ""
    _head: bytearray = field(default_factory=bytearray)
    _tail: int = 0
    """How many bytes of the (ring buffer) file are valid: an offset's byte lies at the offset modulo ``TAIL_BYTES``."""
    _file: IO[bytes] | None = None

    @property
    def head_bytes(self) -> int:
        """How many of the first bytes are kept."""
        return len(self._head)

    @property
    def kept_bytes(self) -> int:
        """How many bytes are kept."""
        return len(self._head) + self._tail

    @property
    def dropped(self) -> int:
        """How many are dropped: those between the kept first and last ones."""
        return self.total - self.kept_bytes

    @property
    def tail_start(self) -> int:
        """Offset of the first byte after the gap."""
        return self.total - self._tail

    def write(self, data: bytes) -> None:
        """Take the next bytes. If the disk is full, they are dropped."""
        room = HEAD_BYTES - len(self._head)
        if room > 0:
            self._head += data[:room]
            self.total += len(data[:room])
            data = data[room:]
        if not data:
            return
        try:
            self._spool(data)
        except OSError as error:
            if not self.failure:
                self.failure = describe_failure(self.directory, error)
                _log.warning("a command's %s", self.failure)
            self.total, self._tail = self.total + len(data), 0

    def read(self, offset: int, limit: int) -> tuple[int, bytes]:
        """The actual offset, and at most so many bytes from there. An offset in the gap moves to its end."""
        if offset < len(self._head):
            whole = bytes(self._head[offset : offset + limit])
            if len(whole) < limit and not self.dropped:
                whole += self._read_spool(self.tail_start, limit - len(whole))
            return offset, whole
        offset = min(max(offset, self.tail_start), self.total)
        return offset, self._read_spool(offset, limit)

    def _spool(self, data: bytes) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self.directory, buffering=0)  # noqa: SIM115 - as long as this
            weakref.finalize(self, self._file.close)
        file, last = self._file.fileno(), data[-TAIL_BYTES:]
        place = (self.total + len(data) - len(last)) % TAIL_BYTES
        before_the_edge = last[: TAIL_BYTES - place]
        for piece, at in ((before_the_edge, place), (last[len(before_the_edge) :], 0)):
            if piece and os.pwrite(file, piece, at) != len(piece):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.total += len(data)
        self._tail = min(TAIL_BYTES, self._tail + len(data))

    def _read_spool(self, offset: int, limit: int) -> bytes:
        size = max(0, min(limit, self.total - offset))
        if self._file is None or not size:
            return b""
        file, place = self._file.fileno(), offset % TAIL_BYTES
        first = min(size, TAIL_BYTES - place)
        return b"".join(os.pread(file, part, at) for part, at in ((first, place), (size - first, 0)) if part)

    def last(self, since: int, limit: int) -> tuple[int, bytes]:
        """The last bytes, at most so many, after ``since``, and their offset."""
        return self.read(max(since, self.total - limit), limit)
