"""Reads what ``apply_patch`` and ``apply_changes`` are asked: a patch in the V4A dialect, or a list of changes. Pure.

patch := "*** Begin Patch" operation* "*** End Patch"
operation := "*** Add File: " path ("+" text)*
           | "*** Delete File: " path
           | "*** Update File: " path ["*** Move to: " path] hunk*
hunk := ("@@" [anchor] ["@@"])* (" " text | "-" text | "+" text | "")* ["*** End of File"]

A change names lines by number, all of them as the file was read. Its content is whole lines: "" is none, "x" and a line
break are two.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.tool_types import Text, demand_unicode

MAX_PATCH_CHARACTERS: Final = 2 << 20
MAX_OPERATIONS: Final = 200
MAX_CHANGES: Final = 100
MAX_EDITS: Final = 200

Action: TypeAlias = Literal["create", "write", "edit", "delete", "move", "copy"]
Op: TypeAlias = Literal["replace", "delete", "insert_after", "insert_before"]
Mark: TypeAlias = Literal[" ", "-", "+", ""]
"""How a line of a hunk begins. The last: an empty line, which is a context line as well or mere layout."""

_BEGIN, _END, _MOVE, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** Move to: ", "*** End of File"
_OPERATION: Final = re.compile(r"\*\*\* (Add|Delete|Update) File: (.*)")
_UNIFIED: Final = re.compile(r"@@ -\d+(,\d+)? \+\d+(,\d+)? @@.*")
_FROM_ONE: Final = Field(default=None, ge=1)
_FROM_ZERO: Final = Field(default=None, ge=0)
_HINT: Final = "the lines of an update begin with a blank, - or +, those of an added file with +"


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that stand together in a file, some of them taken away or added.

    Attributes:
        anchors: Lines to find first, one after the other.
        lines: What each begins with, and its text.
        at_end: It belongs to the end of the file.
    """

    anchors: tuple[str, ...]
    lines: tuple[tuple[Mark, str], ...]
    at_end: bool


@dataclass(frozen=True, slots=True)
class Add:
    """A file with these lines; one that exists is overwritten."""

    path: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """A file that goes."""

    path: str


@dataclass(frozen=True, slots=True)
class Update:
    """A file that changes, or goes to another place, or both."""

    path: str
    destination: str | None
    hunks: tuple[Hunk, ...]


Operation: TypeAlias = Add | Delete | Update


def parse_patch(patch: str) -> tuple[Operation, ...]:
    """Read a patch.

    Raises:
        WorkspaceError: PATCH_FAILED: too large, no envelope, a line that the grammar has no place for, no operation.
            INVALID_ARGUMENT: no Unicode.
    """
    demand_unicode(patch, "the patch")
    if len(patch) > MAX_PATCH_CHARACTERS:
        raise WorkspaceError(
            "PATCH_FAILED", f"the patch is longer than {MAX_PATCH_CHARACTERS} characters", hint="split it"
        )
    lines = patch.replace("\r\n", "\n").strip("\n \t").split("\n")
    if len(lines) < 2 or lines[0].rstrip() != _BEGIN or lines[-1].rstrip() != _END:
        raise WorkspaceError(
            "PATCH_FAILED", "the patch has no envelope", hint=f'its first line is "{_BEGIN}" and its last "{_END}"'
        )
    operations = tuple(_operations(lines[1:-1]))
    if not operations:
        raise WorkspaceError("PATCH_FAILED", "the patch has no operation in it", hint="name a file to change")
    if len(operations) > MAX_OPERATIONS:
        raise WorkspaceError(
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
    """One operation from the lines below its header, of which ``number`` is the first in the patch."""
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
        raise WorkspaceError("PATCH_FAILED", "a hunk has no lines", hint=_HINT)
    return Hunk(tuple(anchors), tuple(lines), at_end)


def _anchor(line: str) -> list[str]:
    """The text of an anchor, if it has one. A header of a unified diff tells line numbers, which are not believed."""
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


def _not_understood(line: str, number: int, hint: str) -> WorkspaceError:
    where = number + 2  # counted from one, behind the line that begins the patch
    return WorkspaceError(
        "PATCH_FAILED", f"line {where} of the patch is not understood: {line[:80]}", hint=hint, details={"line": where}
    )


class Edit(BaseModel):
    """One edit of lines: ``replace`` and ``delete`` name a range, the other two one line."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    op: Op
    start_line: int | None = _FROM_ONE
    end_line: int | None = _FROM_ONE
    line: int | None = _FROM_ZERO
    content: str | None = None


class Change(BaseModel):
    """One change of one file; which fields an action takes, ``check_changes`` tells."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    action: Action
    path: Text
    revision: Text | None = None
    content: str | None = None
    destination: Text | None = None
    edits: tuple[Edit, ...] | None = Field(default=None, min_length=1, max_length=MAX_EDITS, strict=False)


_FIELDS: Final[Mapping[Action | Op, tuple[AbstractSet[str], AbstractSet[str]]]] = {
    "create": ({"content"}, set()),
    "write": ({"content"}, {"revision"}),
    "edit": ({"edits"}, {"revision"}),
    "move": ({"destination"}, {"revision"}),
    "copy": ({"destination"}, {"revision"}),
    "replace": ({"start_line", "content"}, {"end_line"}),
    "insert_after": ({"line", "content"}, set()),
    "insert_before": ({"line", "content"}, set()),
}
"""What each needs, and what it takes besides."""
_DELETE: Final[Mapping[type[BaseModel], tuple[AbstractSet[str], AbstractSet[str]]]] = {
    Change: (set(), {"revision"}),
    Edit: ({"start_line"}, {"end_line"}),
}


class Replacement(BaseModel):
    """One text in place of another in a file.

    Attributes:
        path: The file, which is there.
        old_string: What is replaced. It stands in the file once, unless all places are meant.
        new_string: What comes in its place.
        replace_all: Whether it is replaced wherever it stands.
        revision: Of the file, as ``read_file`` tells it; needed where all places are meant.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Text
    old_string: Text
    new_string: str
    replace_all: bool = False
    revision: Text | None = None


def check_changes(changes: Sequence[Change]) -> None:
    """See that each change, and each edit, has what its action needs and nothing else.

    Raises:
        WorkspaceError: INVALID_ARGUMENT; PATCH_FAILED where there is nothing to do.
    """
    if not changes:
        raise WorkspaceError("PATCH_FAILED", "changes is empty", hint="name a file to change")
    if len(changes) > MAX_CHANGES:
        raise WorkspaceError("INVALID_ARGUMENT", f"changes has more than {MAX_CHANGES} parts", hint="split the call")
    for number, change in enumerate(changes):
        _check_fields(f"changes[{number}]", change.action, change)
        for place, edit in enumerate(change.edits or ()):
            where = f"changes[{number}].edits[{place}]"
            _check_fields(where, edit.op, edit)
            if edit.end_line is not None and edit.end_line < (edit.start_line or 0):
                raise WorkspaceError("INVALID_ARGUMENT", f"{where}.end_line is less than start_line")


def _check_fields(where: str, word: Action | Op, given: Change | Edit) -> None:
    needed, taken = _DELETE[type(given)] if word == "delete" else _FIELDS[word]
    for name in type(given).model_fields.keys() - {"action", "path", "op"}:
        there = getattr(given, name) is not None
        if name in needed and not there:
            raise WorkspaceError("INVALID_ARGUMENT", f"{where}.{name} is needed for {word}")
        if there and name not in needed | taken:
            raise WorkspaceError("INVALID_ARGUMENT", f"{where}.{name} means nothing for {word}", hint="leave it out")
