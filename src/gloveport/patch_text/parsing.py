"""Reads a patch in the V4A dialect. Pure.

patch := "*** Begin Patch" operation* "*** End Patch"
operation := "*** Add File: " path ("+" text)*
           | "*** Delete File: " path
           | "*** Update File: " path ["*** Move to: " path] hunk*
hunk := ("@@" [anchor] ["@@"])* (" " text | "-" text | "+" text | "")* ["*** End of File"]
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from gloveport.patch_text.patch_error import PatchError

MAX_PATCH_CHARACTERS: Final = 2 << 20
MAX_OPERATIONS: Final = 200

Mark: TypeAlias = Literal[" ", "-", "+", ""]
"""The first character of a line of a hunk. ``""`` is an empty line, which is a context line or mere layout."""

_BEGIN, _END, _MOVE, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** Move to: ", "*** End of File"
_OPERATION: Final = re.compile(r"\*\*\* (Add|Delete|Update) File: (.*)")
_UNIFIED: Final = re.compile(r"@@ -\d+(,\d+)? \+\d+(,\d+)? @@.*")
_HINT: Final = "the lines of an update begin with a blank, - or +, those of an added file with +"


@dataclass(frozen=True, slots=True)
class Hunk:
    """Consecutive lines of a file, some of which are removed or added.

    Attributes:
        anchors: Lines to find first, one after the other.
        lines: The mark and the text of each line.
        at_end: Whether the hunk belongs to the end of the file.
    """

    anchors: tuple[str, ...]
    lines: tuple[tuple[Mark, str], ...]
    at_end: bool


@dataclass(frozen=True, slots=True)
class Add:
    """Adds a file with these lines, or overwrites it."""

    path: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes a file."""

    path: str


@dataclass(frozen=True, slots=True)
class Update:
    """Changes a file, moves it, or both."""

    path: str
    destination: str | None
    hunks: tuple[Hunk, ...]


Operation: TypeAlias = Add | Delete | Update


def parse_patch(patch: str) -> tuple[Operation, ...]:
    """Parse a patch.

    Raises:
        PatchError: PATCH_FAILED: the patch is too large, has no envelope or no operation, or a line violates the
            grammar. INVALID_ARGUMENT: the patch is no valid Unicode.
    """
    try:
        patch.encode()
    except UnicodeEncodeError as error:
        raise PatchError("INVALID_ARGUMENT", "the patch holds half of a surrogate pair") from error
    if len(patch) > MAX_PATCH_CHARACTERS:
        raise PatchError("PATCH_FAILED", f"the patch is longer than {MAX_PATCH_CHARACTERS} characters", hint="split it")
    lines = patch.replace("\r\n", "\n").strip("\n \t").split("\n")
    if len(lines) < 2 or lines[0].rstrip() != _BEGIN or lines[-1].rstrip() != _END:
        raise PatchError(
            "PATCH_FAILED", "the patch has no envelope", hint=f'its first line is "{_BEGIN}" and its last "{_END}"'
        )
    operations = tuple(_operations(lines[1:-1]))
    if not operations:
        raise PatchError("PATCH_FAILED", "the patch has no operation in it", hint="name a file to change")
    if len(operations) > MAX_OPERATIONS:
        raise PatchError(
            "PATCH_FAILED", f"the patch has more than {MAX_OPERATIONS} operations", hint="split it into several"
        )
    return operations


def _operations(lines: Sequence[str]) -> Iterator[Operation]:
    cursor = 0
    while cursor < len(lines):
        if lines[cursor].strip():
            kind, path = _header(lines[cursor], cursor)
            end = cursor + 1
            while end < len(lines) and not _OPERATION.fullmatch(lines[end]):
                end += 1
            yield _operation(kind, path, lines[cursor + 1 : end], cursor + 1)
            cursor = end
        else:
            cursor += 1


def _header(line: str, number: int) -> tuple[str, str]:
    found = _OPERATION.fullmatch(line)
    if not found or not found[2].strip():
        raise _not_understood(line, number, 'an operation begins with "*** Add File: ", "*** Delete File: " or so')
    return found[1], found[2].strip()


def _operation(kind: str, path: str, body: Sequence[str], number: int) -> Operation:
    """Parse an operation from the lines below its header; ``number`` is the patch's line number of the first."""
    if kind == "Update":
        destination = None
        if body and body[0].startswith(_MOVE):
            destination = body[0].removeprefix(_MOVE).strip()
            body, number = body[1:], number + 1
        return Update(path, destination, tuple(_hunks(body, number)))
    while body and not body[-1].strip():
        body = body[:-1]
    for offset, line in enumerate(body):
        if kind == "Delete" or not line.startswith("+"):
            raise _not_understood(line, number + offset, _HINT)
    return Delete(path) if kind == "Delete" else Add(path, tuple(line[1:] for line in body))


def _hunks(body: Sequence[str], number: int) -> Iterator[Hunk]:
    anchors: list[str] = []
    lines: list[tuple[Mark, str]] = []
    for offset, line in enumerate(body):
        if line.startswith("@@"):
            if lines:
                yield _hunk(anchors, lines, at_end=False)
                anchors, lines = [], []
            anchors += _anchor(line)
        elif line.rstrip() == _END_OF_FILE:
            yield _hunk(anchors, lines, at_end=True)
            anchors, lines = [], []
        else:
            lines.append(_line(line, number + offset))
    if anchors or any(mark for mark, _ in lines):
        yield _hunk(anchors, lines, at_end=False)


def _hunk(anchors: Sequence[str], lines: Sequence[tuple[Mark, str]], *, at_end: bool) -> Hunk:
    if not any(mark for mark, _ in lines):
        raise PatchError("PATCH_FAILED", "a hunk has no lines", hint=_HINT)
    return Hunk(tuple(anchors), tuple(lines), at_end)


def _anchor(line: str) -> list[str]:
    """Return the text of an anchor, if it has one. Line numbers, as in the header of a unified diff, are ignored."""
    if _UNIFIED.fullmatch(line):
        return []
    text = line[2:].removesuffix("@@").removeprefix(" ").rstrip()
    return [text] if text else []


def _line(line: str, number: int) -> tuple[Mark, str]:
    match line[:1]:
        case " " | "-" | "+" | "" as mark:
            return mark, line[1:]
        case _:
            raise _not_understood(line, number, _HINT)


def _not_understood(line: str, number: int, hint: str) -> PatchError:
    where = number + 2  # counted from one, after the first line of the patch
    return PatchError(
        "PATCH_FAILED", f"line {where} of the patch is not understood: {line[:80]}", hint=hint, details={"line": where}
    )
