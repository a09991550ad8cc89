"""Splits the text of a file into lines, compares them with those of a patch, and replaces some of them. Pure.

Every line that is not replaced stays as it was, byte for byte, with the ending it had. Lines that come anew end as most
lines of the file do. A byte order mark stays, and a file whose last line has no ending keeps having none.

Lines are alike in three grades, the strictest first: ``exact``; ``trailing_ws``, blanks at the ends of lines do not
count; ``indent``, the lines of the patch are all indented by something else than the file's.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from os.path import commonprefix
from typing import Final, Literal, TypeAlias

from gloveport.patch_text.patch_error import PatchError

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
            PatchError: UNSUPPORTED_ENCODING where it is not UTF-8; PATCH_FAILED where it has too many lines.
        """
        mark = _MARK if content.startswith(_MARK) else b""
        breaks = content.count(b"\n")
        if breaks > MAX_LINES:
            raise PatchError("PATCH_FAILED", f"{path} has more than {MAX_LINES} lines", hint="change it with a command")
        try:
            pieces = content[len(mark) :].decode().split("\n")
        except UnicodeDecodeError as error:
            raise PatchError(
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


Grade: TypeAlias = Literal["exact", "trailing_ws", "indent"]
GRADES: Final[Mapping[Grade, str]] = {
    "exact": "",
    "trailing_ws": "blanks at the ends of lines differ",
    "indent": "the indentation differs, and was adapted",
}
Shift: TypeAlias = tuple[str, str]
"""What the indentation of the patch has in front, and what the file's has there instead."""
LineIndex: TypeAlias = tuple[dict[str, str], str]
"""The character that stands for each line, alike ones for the same, and a file's lines as a text of these."""

BLANKS: Final = " \t"
_DEEPEST: Final = 1000
"""Blanks that are compared one by one: nobody indents deeper, and a hostile line has millions."""


def index_lines(lines: Sequence[str], grade: Grade) -> LineIndex:
    """The index of a file's lines, at most ``MAX_LINES``: there are as many characters as that."""
    normal = lines if grade == "exact" else [normalize(line, grade) for line in lines]
    characters = {line: chr(number) for number, line in enumerate(dict.fromkeys(normal))}
    return characters, "".join([characters[line] for line in normal])


def normalize(line: str, grade: Grade) -> str:
    """What of a line counts."""
    match grade:
        case "exact":
            return line
        case "trailing_ws":
            return line.rstrip(BLANKS)
        case "indent":
            return line.strip(BLANKS)


def find_shift(block: Sequence[str], lines: Sequence[str]) -> Shift | None:
    """By what the indentation differs, if it is the same for all lines; of two spellings what they end with alike."""
    pairs = [(_indent(ours), _indent(theirs)) for ours, theirs in zip(block, lines, strict=True) if ours.strip(BLANKS)]
    shifts = set()
    for ours, theirs in pairs:
        ends = [indent[: -_DEEPEST - 1 : -1] for indent in (ours, theirs)]
        alike = len(commonprefix(ends))  # noqa: RUF071 - characters are meant
        shifts.add((ours[: len(ours) - alike], theirs[: len(theirs) - alike]))
    return shifts.pop() if len(shifts) == 1 else None


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(BLANKS))]


def shift_line(line: str, shift: Shift) -> str:
    """A line that is added, indented as the file is. One that is indented less than all others is left alone."""
    ours, theirs = shift
    if not line.strip(BLANKS) or not line.startswith(ours):
        return line
    return theirs + line.removeprefix(ours)
