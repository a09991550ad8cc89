"""Splits the text of a file into lines, and replaces some of them. Pure.

Every line that is not replaced stays as it was, byte for byte, with the ending it had. Lines that come anew end as most
lines of the file do. A byte order mark stays, and a file whose last line has no ending keeps having none.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Final, TypeAlias

from gloveport.workspace.errors import WorkspaceError

MAX_LINES: Final = 1_000_000
_MARK: Final = b"\xef\xbb\xbf"

Range: TypeAlias = dict[str, int]
"""``start_line``, ``end_line`` (inclusive, of the new text; one less than the start where nothing was added),
``added_lines``, ``removed_lines``."""


@dataclass(frozen=True, slots=True)
class Splice:
    """Lines ``start`` to ``end`` (from 0, the end is not one of them) become ``lines``, which have no endings."""

    start: int
    end: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileText:
    """What a file holds.

    Attributes:
        mark: The byte order mark, or nothing.
        pieces: What stands before each LF, and after the last one where anything does: a CR is still there.
        crlf: Whether most lines end with CR LF.
        ended: Whether the last line has an ending. A file without lines says yes: what is added to it has one.
    """

    mark: bytes
    pieces: tuple[str, ...]
    crlf: bool
    ended: bool

    @classmethod
    def decode(cls, content: bytes, path: str) -> "FileText":
        """Read a file's bytes.

        Raises:
            WorkspaceError: UNSUPPORTED_ENCODING where it is not UTF-8; PATCH_FAILED where it has too many lines.
        """
        mark = _MARK if content.startswith(_MARK) else b""
        breaks = content.count(b"\n")
        if breaks > MAX_LINES:
            raise WorkspaceError(
                "PATCH_FAILED", f"{path} has more than {MAX_LINES} lines", hint="change it with a command"
            )
        try:
            pieces = content[len(mark) :].decode().split("\n")
        except UnicodeDecodeError as error:
            raise WorkspaceError(
                "UNSUPPORTED_ENCODING",
                f"{path} is not UTF-8",
                hint="change it with a command",
                details={"path": path, "offset": len(mark) + error.start},
            ) from error
        ended = pieces[-1] == ""
        return cls(mark, tuple(pieces[:-1] if ended else pieces), content.count(b"\r\n") * 2 > breaks, ended)

    def lines(self) -> tuple[str, ...]:
        """All lines without their endings. A CR with no LF behind it is none."""
        lines = [piece.removesuffix("\r") for piece in self.pieces]
        return tuple(lines if self.ended else [*lines[:-1], self.pieces[-1]])

    def apply(self, splices: Sequence[Splice]) -> bytes:
        """The file's bytes after splices, which are in order and do not overlap."""
        carriage = "\r" if self.crlf else ""
        old = self.pieces if self.ended else (*self.pieces[:-1], self.pieces[-1] + carriage)
        pieces: list[str] = []
        cursor = 0
        for splice in splices:
            pieces += old[cursor : splice.start]
            pieces += [line + carriage for line in splice.lines]
            cursor = splice.end
        pieces += old[cursor:]
        if pieces and self.ended:
            pieces.append("")
        elif pieces:
            pieces[-1] = pieces[-1].removesuffix(carriage)
        return self.mark + "\n".join(pieces).encode()


def ranges(splices: Sequence[Splice]) -> list[Range]:
    """Where the lines of splices are afterwards."""
    found: list[Range] = []
    shift = 0
    for splice in splices:
        added, removed = len(splice.lines), splice.end - splice.start
        start = splice.start + shift + 1
        shift += added - removed
        found.append(
            {"start_line": start, "end_line": start + added - 1, "added_lines": added, "removed_lines": removed}
        )
    return found


def count_ranges(changed: Sequence[Range]) -> tuple[int, int]:
    """How many lines come, and how many go."""
    return sum(each["added_lines"] for each in changed), sum(each["removed_lines"] for each in changed)


def count_changed_lines(before: bytes, after: bytes) -> tuple[int, int]:
    """How many lines come, and how many go; one that only moves does neither."""
    old, new = Counter(BytesIO(before)), Counter(BytesIO(after))
    return (new - old).total(), (old - new).total()


def difference(before: bytes, after: bytes) -> list[Range]:
    """The one range, or none, in which two contents differ: what they begin and end with alike is left out."""
    if before == after:
        return []
    old, new = list(BytesIO(before)), list(BytesIO(after))
    shorter = min(len(old), len(new))
    head = next((number for number in range(shorter) if old[number] != new[number]), shorter)
    tail = next((number for number in range(shorter - head) if old[-1 - number] != new[-1 - number]), shorter - head)
    return [
        {
            "start_line": head + 1,
            "end_line": len(new) - tail,
            "added_lines": len(new) - tail - head,
            "removed_lines": len(old) - tail - head,
        }
    ]


def revision(content: bytes) -> str:
    """SHA-256 of a whole file in hexadecimal, as ``read_file`` tells it."""
    return hashlib.sha256(content).hexdigest()
