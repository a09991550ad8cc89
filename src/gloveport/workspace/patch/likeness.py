"""Compares lines of a patch with lines of a file. Pure.

Three grades, the strictest first: ``exact``; ``trailing_ws``, blanks at the ends of lines do not count; ``indent``, the
lines of the patch are all indented by something else than the file's.
"""

from collections.abc import Mapping, Sequence
from os.path import commonprefix
from typing import Final, Literal, TypeAlias

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
    """The index of a file's lines, at most ``text.MAX_LINES``: there are as many characters as that."""
    characters: dict[str, str] = {}
    text = "".join([characters.setdefault(normalize(line, grade), chr(len(characters))) for line in lines])
    return characters, text


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
