"""Splits the text of a file into lines, compares them with those of a patch, and replaces some of them. Pure.

A line that is not replaced stays the same byte for byte, with its line ending. New lines get the ending of most lines
of the file. A byte order mark stays, and so does a missing ending of the last line.

Lines match by three grades, the strictest first: ``exact``; ``trailing_ws``, which ignores blanks at the ends of lines;
``indent``, if the indentation of all lines of the patch differs from the file's in the same way.
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
_COMPARED_BYTES: Final = 1 << 20
"""The most bytes of which each line is counted: in millions of lines that takes seconds, and a gigabyte."""

Range: TypeAlias = dict[str, int]
"""``start_line``, ``end_line`` (inclusive, of the new text; one less than the start where nothing was added),
``added_lines``, ``removed_lines``."""


@dataclass(frozen=True, slots=True)
class Splice:
    """Replaces lines ``start`` to ``end`` (from 0, exclusive) by ``lines``, which have no endings."""

    start: int
    end: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileText:
    """The content of a file.

    Attributes:
        mark: The byte order mark, or nothing.
        pieces: The text before each LF, with any CR, and a rest after the last LF.
        crlf: Whether most lines end with CR LF.
        ended: Whether the last line has an ending. True for an empty file, so that added lines have endings.
    """

    mark: bytes
    pieces: tuple[str, ...]
    crlf: bool
    ended: bool

    @classmethod
    def decode(cls, content: bytes, path: str) -> "FileText":
        """Decode a file's bytes.

        Raises:
            PatchError: UNSUPPORTED_ENCODING if it is not UTF-8; PATCH_FAILED if it has too many lines.
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
        """All lines without their endings. A CR without an LF after it is no ending."""
        lines = [piece.removesuffix("\r") for piece in self.pieces]
        return tuple(lines if self.ended else [*lines[:-1], self.pieces[-1]])

    def apply(self, splices: Sequence[Splice]) -> bytes:
        """Apply splices, which are in order and do not overlap; return the file's bytes."""
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
    """Return the ranges of the splices' lines in the changed file."""
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
    """Count the added and the removed lines."""
    return sum(each["added_lines"] for each in changed), sum(each["removed_lines"] for each in changed)


def count_lines(text: bytes) -> int:
    """How many lines there are: none in nothing, and a last one without a newline counts."""
    return text.count(b"\n") + (bool(text) and not text.endswith(b"\n"))


def count_changed_lines(before: bytes, after: bytes) -> tuple[int, int]:
    """Count the added and the removed lines; a moved line counts as neither, unless much differs."""
    _, old, new = _differing_lines(before, after)
    if len(old) + len(new) > _COMPARED_BYTES:
        return count_lines(new), count_lines(old)
    old_lines, new_lines = Counter(BytesIO(old)), Counter(BytesIO(new))
    return (new_lines - old_lines).total(), (old_lines - new_lines).total()


def difference(before: bytes, after: bytes) -> list[Range]:
    """Return the one range in which two contents differ, without their common beginning and end; empty if equal."""
    if before == after:
        return []
    head, old, new = _differing_lines(before, after)
    added = count_lines(new)
    return [
        {
            "start_line": head + 1,
            "end_line": head + added,
            "added_lines": added,
            "removed_lines": count_lines(old),
        }
    ]


def _differing_lines(before: bytes, after: bytes) -> tuple[int, bytes, bytes]:
    """How many lines both begin with, and the lines of each between these and those with which both end.

    No lists of lines: a file may have 16 million, and whoever makes one of them holds the interpreter.
    """
    begin = before.rfind(b"\n", 0, _common_size(before, after)) + 1
    old, new = b"\n" + before[begin:], b"\n" + after[begin:]
    at = old.find(b"\n", len(old) - _common_size(old[::-1], new[::-1]))
    tail = len(old) - at - 1 if at >= 0 else 0
    return before.count(b"\n", 0, begin), old[1 : len(old) - tail], new[1 : len(new) - tail]


def _common_size(one: bytes, other: bytes) -> int:
    """With how many equal bytes both begin."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def revision(content: bytes) -> str:
    """Return the SHA-256 of a whole file in hexadecimal, as ``read_file`` does."""
    return hashlib.sha256(content).hexdigest()


Grade: TypeAlias = Literal["exact", "trailing_ws", "indent"]
GRADES: Final[Mapping[Grade, str]] = {
    "exact": "",
    "trailing_ws": "blanks at the ends of lines differ",
    "indent": "the indentation differs, and was adapted",
}
Shift: TypeAlias = tuple[str, str]
"""The beginning of the patch's indentation, and the beginning of the file's in its place."""
LineIndex: TypeAlias = tuple[dict[str, str], str]
"""The character for each line, the same for lines that match, and a file's lines as a text of these characters."""

BLANKS: Final = " \t"
_DEEPEST: Final = 1000
"""Most blanks that are compared: nobody indents deeper, and a hostile line has millions."""


def index_lines(lines: Sequence[str], grade: Grade) -> LineIndex:
    """Index a file's lines, at most ``MAX_LINES``, since each different line takes a character."""
    normal = lines if grade == "exact" else [normalize(line, grade) for line in lines]
    characters: dict[str, str] = {}
    for line in normal:  # and not ``dict.fromkeys``, which lets nobody else run meanwhile
        if line not in characters:
            characters[line] = chr(len(characters))
    return characters, "".join([characters[line] for line in normal])


def normalize(line: str, grade: Grade) -> str:
    """Return the part of a line that a grade compares."""
    match grade:
        case "exact":
            return line
        case "trailing_ws":
            return line.rstrip(BLANKS)
        case "indent":
            return line.strip(BLANKS)


def find_shift(block: Sequence[str], lines: Sequence[str]) -> Shift | None:
    """Find the difference of the indentation, if it is the same for all lines, without the common end of both."""
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
    """Indent an added line as the file is. A line with less indentation than all others stays unchanged."""
    ours, theirs = shift
    if not line.strip(BLANKS) or not line.startswith(ours):
        return line
    return theirs + line.removeprefix(ours)
