"""What is kept of one stream: its first bytes and its last, each under its offset in the whole."""

from dataclasses import dataclass, field
from typing import Final

HEAD_BYTES: Final = 64 << 10
TAIL_BYTES: Final = 448 << 10


@dataclass(kw_only=True)
class Retained:
    """The bytes of one stream that are kept.

    Attributes:
        total: Bytes that have come.
    """

    total: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    @property
    def head_bytes(self) -> int:
        """How many of the first bytes are there."""
        return len(self._head)

    @property
    def kept(self) -> int:
        """How many bytes are there."""
        return len(self._head) + len(self._tail)

    @property
    def dropped(self) -> int:
        """How many are gone: those between the first and the last that are kept."""
        return self.total - self.kept

    @property
    def tail_start(self) -> int:
        """Offset of the first byte behind the gap."""
        return self.total - len(self._tail)

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        self.total += len(data)
        room = HEAD_BYTES - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > TAIL_BYTES:
            del self._tail[: len(self._tail) - TAIL_BYTES]

    def read(self, offset: int, limit: int) -> tuple[int, bytes]:
        """The real offset, and at most so many bytes from there on. An offset in the gap moves to its end."""
        if offset < len(self._head):
            whole = self._head[offset : offset + limit]
            if len(whole) < limit and not self.dropped:
                whole += self._tail[: limit - len(whole)]
            return offset, bytes(whole)
        offset = min(max(offset, self.tail_start), self.total)
        start = offset - self.tail_start
        return offset, bytes(self._tail[start : start + limit])

    def last(self, since: int, limit: int) -> tuple[int, bytes]:
        """The last bytes, at most so many, of those from ``since`` on, and their offset."""
        return self.read(max(since, self.total - limit), limit)


def whole_characters(data: bytes) -> int:
    """How many of the bytes are whole characters of UTF-8: what is cut at the end may get its rest later."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:  # goes on
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return len(data) - back if length > back else len(data)
    return len(data)
