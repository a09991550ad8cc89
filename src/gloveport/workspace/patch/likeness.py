"""When lines count as alike, and what to do about their indentation. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

BLANKS: Final = " \t"
_DEEPEST: Final = 1000
"""Blanks that are compared one by one: nobody indents deeper, and a hostile line has millions."""

Grade: TypeAlias = Literal["exact", "trailing_ws", "indent"]
GRADES: Final[Mapping[Grade, str]] = {
    "exact": "",
    "trailing_ws": "blanks at the ends of lines differ",
    "indent": "the indentation differs, and was adapted",
}


@dataclass(slots=True)
class Index:
    """Lines as characters, for one grade: alike lines are the same one. A line that the file does not have has none."""

    characters: dict[str, str]
    text: str

    @classmethod
    def of(cls, lines: Sequence[str], grade: Grade) -> "Index":
        """The lines of a file, at most ``text.MAX_LINES``: there are as many characters as that."""
        characters: dict[str, str] = {}
        text = "".join([characters.setdefault(like(line, grade), chr(len(characters))) for line in lines])
        return cls(characters, text)


Shift: TypeAlias = tuple[str, str]
"""What the indentation of the patch has in front, and what the file's has there instead."""


def like(line: str, grade: Grade) -> str:
    """What of a line counts."""
    match grade:
        case "exact":
            return line
        case "trailing_ws":
            return line.rstrip(BLANKS)
        case "indent":
            return line.strip(BLANKS)


def shift_between(block: Sequence[str], lines: Sequence[str]) -> Shift | None:
    """By what the indentation differs, if it is the same for all lines; of two spellings what they end with alike."""
    pairs = [(ours, theirs) for ours, theirs in zip(block, lines, strict=True) if ours.strip(BLANKS)]
    shifts = {_differing(_indent(ours), _indent(theirs)) for ours, theirs in pairs}
    return shifts.pop() if len(shifts) == 1 else None


def _differing(ours: str, theirs: str) -> Shift:
    alike = 0
    for one, other in zip(reversed(ours), reversed(theirs), strict=False):
        if one != other or alike == _DEEPEST:
            break
        alike += 1
    return ours[: len(ours) - alike], theirs[: len(theirs) - alike]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(BLANKS))]


def shifted(line: str, shift: Shift) -> str:
    """A line that is added, indented as the file is. One that is indented less than all others is left alone."""
    ours, theirs = shift
    if not line.strip(BLANKS) or not line.startswith(ours):
        return line
    return theirs + line.removeprefix(ours)
