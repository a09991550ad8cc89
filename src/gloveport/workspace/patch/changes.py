"""Values of ``apply_changes`` and ``edit_file``: changes of lines by number, one text in place of another. Pure.

A change names lines by number, all as they were when the file was read. Its content is whole lines: "" is no line, "x"
and a line break are two.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from gloveport.patch_text.text import Splice
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.tool_types import Text

MAX_CHANGES: Final = 100
MAX_EDITS: Final = 200

Action: TypeAlias = Literal["create", "write", "edit", "delete", "move", "copy"]
Op: TypeAlias = Literal["replace", "delete", "insert_after", "insert_before"]

_FROM_ONE: Final = Field(default=None, ge=1)
_FROM_ZERO: Final = Field(default=None, ge=0)


class Edit(BaseModel):
    """One edit of lines: ``replace`` and ``delete`` name a range, the other two one line."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    op: Op
    start_line: int | None = _FROM_ONE
    end_line: int | None = _FROM_ONE
    line: int | None = _FROM_ZERO
    content: str | None = None


class Change(BaseModel):
    """One change of one file; ``check_changes`` says which fields each action takes."""

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
"""The required and the optional fields of each action."""
_DELETE: Final[Mapping[type[BaseModel], tuple[AbstractSet[str], AbstractSet[str]]]] = {
    Change: (set(), {"revision"}),
    Edit: ({"start_line"}, {"end_line"}),
}


class Replacement(BaseModel):
    """One text in place of another in a file.

    Attributes:
        path: The file, which must exist.
        old_string: The text to replace, not empty. It must occur once, unless all places are meant.
        new_string: Its replacement.
        replace_all: Whether to replace all occurrences.
        revision: Of the file, as ``read_file`` tells it; needed where all places are meant.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Text
    old_string: str
    new_string: str
    replace_all: bool = False
    revision: Text | None = None


def check_changes(changes: Sequence[Change]) -> None:
    """Check that each change, and each edit, has the fields that its action needs, and no others.

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


def _check_fields(where: str, word: Action | Op, change: Change | Edit) -> None:
    needed, optional = _DELETE[type(change)] if word == "delete" else _FIELDS[word]
    for name in type(change).model_fields.keys() - {"action", "path", "op"}:
        there = getattr(change, name) is not None
        if name in needed and not there:
            raise WorkspaceError("INVALID_ARGUMENT", f"{where}.{name} is needed for {word}")
        if there and name not in needed | optional:
            raise WorkspaceError("INVALID_ARGUMENT", f"{where}.{name} means nothing for {word}", hint="leave it out")


def find_splices(edits: Sequence[Edit], total: int, path: str) -> tuple[Splice, ...]:
    """The splices that these (checked) edits make in a file of ``total`` lines, in the order of its lines.

    Raises:
        WorkspaceError: INVALID_ARGUMENT where a line is behind the end, PATCH_HUNKS_OVERLAP.
    """
    numbered = sorted(
        ((_splice(edit), number) for number, edit in enumerate(edits)), key=lambda each: (each[0].start, each[0].end)
    )
    for splice, number in numbered:
        if splice.end > total or splice.start < 0:
            raise WorkspaceError(
                "INVALID_ARGUMENT",
                f"edit {number} names a line that {path}, which has {total} lines, does not have",
                hint="read the file and take the numbers from there",
                retryable=True,
                details={"path": path, "total_lines": total, "edit_index": number, "operation": edits[number].op},
            )
    for (first, one), (second, other) in pairwise(numbered):
        if first.end > second.start or (first.start, first.end) == (second.start, second.end):
            indexes: list[JsonValue] = [*sorted((one, other))]
            raise WorkspaceError(
                "PATCH_HUNKS_OVERLAP",
                f"edits {indexes[0]} and {indexes[1]} are about the same lines of {path}",
                hint="make one edit of them",
                details={"path": path, "edit_indexes": indexes},
            )
    return tuple(splice for splice, _ in numbered)


def _splice(edit: Edit) -> Splice:
    lines = tuple(edit.content.replace("\r\n", "\n").split("\n")) if edit.content else ()
    if edit.start_line is not None:
        return Splice(edit.start_line - 1, edit.end_line or edit.start_line, lines)
    start = (edit.line or 0) - (edit.op == "insert_before")
    return Splice(start, start, lines)
