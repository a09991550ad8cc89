"""Keeps what a program writes: small output in memory, large output, up to a budget, in a file without a name.

The file never has a name, so a dead server leaves nothing behind. Bytes are decoded on demand: no buffer's edge cuts a
character in two, and terminal escapes are removed by default, since the reader may be a terminal.
"""

import codecs
import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct, field

from gloveport.fairness import choose_forgotten
from gloveport.late_pattern import late_pattern
from gloveport.model import Output
from gloveport.spooled_bytes import SpooledBytes, describe_failure

PAGE_BYTES = 64 * 1024
"""The most bytes of one page of output."""

_log = logging.getLogger(__name__)

_NOTHING = Output()
_ARCHIVED = 64
_ARCHIVED_BYTES = 256 << 20

# ECMA-48: control sequences, command strings (OSC and its kin), other escapes; then every control character but tab and
# newline. A carriage return becomes a newline, or it could overwrite what stands before it. Then invisible characters,
# which reverse a line or hide a message from its reader: direction overrides, tags, selectors without a letter,
# zero-width spaces. Joiners stay, for emoji and for scripts that need them.
_ESCAPES = late_pattern(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|\x9b[0-?]*[ -/]*[@-~]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
    r"|[\u200b\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)


def plain(text: str) -> str:
    """``text`` without terminal escape sequences, control characters, and invisible characters that have an effect."""
    return _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


class Capture(Struct, kw_only=True, dict=True):
    """One stream of one run: a ``Sink`` that keeps its bytes.

    Attributes:
        shown_bytes: Bytes that an answer may show.
        stored_bytes: Bytes after which the run has to end.
        directory: Where the nameless file for large output is made.
        notify: Gets each piece of text as it comes, for progress.
        clean: Applied to text after its escapes are removed, before anybody sees it.
        total: Bytes that were written.
        failure: Why the rest could not be stored; empty if it could.
    """

    shown_bytes: int
    stored_bytes: int
    directory: Path
    notify: Callable[[str], None] | None = None
    clean: Callable[[str], str] = str
    total: int = 0
    failure: str = ""

    @cached_property
    def _spool(self) -> SpooledBytes:
        return SpooledBytes(directory=self.directory, most_in_memory=self.shown_bytes)

    @cached_property
    def _decoder(self) -> codecs.IncrementalDecoder:
        return codecs.getincrementaldecoder("utf-8")(errors="replace")

    def write(self, data: bytes) -> None:
        """Take the next bytes. Bytes beyond the budget are counted and dropped."""
        stored_data = data[: max(0, self.stored_bytes - self.total)]
        try:
            self._spool.append(stored_data)
        except OSError as error:
            self.stored_bytes = min(self.stored_bytes, self.total)  # a full disk ends the run as a full budget does
            self.failure = describe_failure(self.directory, error)
            _log.warning("a run ends since its %s", self.failure)
        self.total += len(data)
        if self.notify is not None and (text := self._decoder.decode(stored_data)):
            self.notify(text)

    def full(self) -> bool:
        """True when the budget is spent."""
        return self.total > self.stored_bytes

    def output(self, handle: str | None, *, ansi: str, most: int | None = None) -> Output:
        """The output as an answer shows it: everything if it fits, else head and tail with a line between them.
        ``handle`` is for reading the rest; None if that is not possible yet. ``ansi`` is whether escape sequences are
        kept, ``most`` the bytes to show, if fewer than usual.
        """
        if not self.total:
            return _NOTHING
        stored_bytes = min(self.total, self.stored_bytes)
        shown_bytes = self.shown_bytes if most is None else min(self.shown_bytes, most)
        truncated = self.total > shown_bytes
        if not truncated:
            text = _whole_characters(self._spool.read(0, stored_bytes)).decode(errors="replace")
        else:
            half = shown_bytes // 2
            head = _whole_characters(self._spool.read(0, half))
            tail = self._spool.read(max(half, stored_bytes - half), half).lstrip(_CONTINUATION).decode(errors="replace")
            rest = (
                f"read_output(output_ref={handle!r}, offset={len(head)}) goes on here"
                if handle
                else "they can be read in the end"
            )
            text = f"{head.decode(errors='replace')}\n[… {self.total - 2 * half} bytes not shown; {rest} …]\n{tail}"
        return Output(
            text=self.clean(text if ansi == "keep" else plain(text)),
            total_bytes=self.total,
            truncated=truncated,
            handle=handle if truncated else None,
        )

    def page(self, offset: int, most: int = PAGE_BYTES) -> tuple[str, int | None]:
        """Text of so many bytes from ``offset`` on, and the offset of the next page, None after the last."""
        end = min(self.total, self.stored_bytes)
        offset = min(offset, end)  # a caller may name any number
        data = self._spool.read(offset, min(most, PAGE_BYTES))
        if offset + len(data) < end:
            data = _whole_characters(data) or data
        following = offset + len(data)
        return self.clean(plain(data.decode(errors="replace"))), following if data and following < end else None

    def close(self) -> None:
        """Forget everything."""
        self._spool.close()


_CONTINUATION = bytes(range(0x80, 0xC0))


def _whole_characters(data: bytes) -> bytes:
    """``data`` without an UTF-8 sequence that is cut off at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if back < needed else data
        if byte < 0x80:
            break
    return data


class Archive(Struct, frozen=True):
    """The large outputs of the latest runs, by handle, for later reading by their owners.

    Without room, the oldest of the owner with the most goes, so that nobody drives out what others have.
    """

    _captures: "dict[str, tuple[str, Capture]]" = field(default_factory=dict)
    """Owners and outputs by their handles, the oldest first."""

    def add(self, handle: str, capture: Capture, owner: str) -> None:
        """Keep a capture, and forget others if there are too many, or they are too large."""
        self._captures[handle] = owner, capture
        while len(self._captures) > _ARCHIVED:
            self._forget_one([(handle, owner, 1) for handle, (owner, _) in self._captures.items()])
        while sum(size for _, _, size in self._sizes()) > _ARCHIVED_BYTES:
            self._forget_one(self._sizes())

    def page(self, handle: str, owner: str, offset: int, most: int = PAGE_BYTES) -> tuple[str, int | None] | None:
        """A page of this owner's kept output as ``Capture.page`` gives it; None when it is not, or no longer, kept."""
        kept_for, capture = self._captures.get(handle, ("", None))
        return capture.page(offset, most) if capture is not None and kept_for == owner else None

    def _sizes(self) -> "list[tuple[str, str, int]]":
        """Handle, owner and bytes of each."""
        items = self._captures.items()
        return [(handle, owner, min(capture.total, capture.stored_bytes)) for handle, (owner, capture) in items]

    def _forget_one(self, entries: "Sequence[tuple[str, str, int]]") -> None:
        self._captures.pop(choose_forgotten(entries))[1].close()

    def close(self) -> None:
        """Forget all."""
        while self._captures:
            self._captures.popitem()[1][1].close()
