"""Stages the operations of a patch, the changes of ``apply_changes``, and the replacement of a text."""

from collections.abc import Sequence
from itertools import pairwise

from pydantic import JsonValue

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.line_reader import count_lines
from gloveport.workspace.patch.likeness import Grade
from gloveport.workspace.patch.matching import place_hunks
from gloveport.workspace.patch.parsing import Add, Change, Delete, Edit, Operation, Update
from gloveport.workspace.patch.replacement import Replacement, replace_text
from gloveport.workspace.patch.staging import StagedFile, Staging, demand_revision, mismatch
from gloveport.workspace.patch.text import FileText, Range, Splice, count_ranges, difference, ranges


def stage_patch(staging: Staging, operations: Sequence[Operation]) -> None:
    """Stage the operations of a patch, in their order.

    Raises:
        WorkspaceError: PATCH_FAILED where two are about the same file; and all that reading and matching raise.
    """
    first: dict[str, int] = {}
    for number, operation in enumerate(operations):
        target = staging.target(operation.path)
        path = target.path
        if path in first:
            raise WorkspaceError(
                "PATCH_FAILED",
                f"two operations of the patch are about {path}",
                hint="make one of them",
                details={"path": path, "operation_indexes": [first[path], number]},
            )
        first[path] = number
        match operation:
            case Add(_, lines):
                old, new = target.content or b"", "".join(f"{line}\n" for line in lines).encode()
                counts = count_lines(new), count_lines(old)
                _put(staging, target, "add", new, difference(old, new), counts=counts)
            case Delete():
                _delete(staging, *staging.existing(operation.path))
            case Update():
                _update(staging, operation)


def stage_changes(staging: Staging, changes: Sequence[Change]) -> None:
    """Stage changes, which are checked, in their order.

    Raises:
        WorkspaceError: INVALID_ARGUMENT where two name the same file; PATCH_FAILED where a file is that must not be;
            REVISION_REQUIRED, REVISION_MISMATCH; and all that reading and splicing raise.
    """
    first: dict[str, int] = {}
    for number, each in enumerate(changes):
        for path in filter(None, (each.path, each.destination)):
            resolved = staging.target(path).place.path
            if resolved in first:
                raise WorkspaceError(
                    "INVALID_ARGUMENT",
                    f"changes[{number}] names {resolved}, and so does changes[{first[resolved]}]",
                    hint="make one change of them",
                    details={"path": resolved, "change_indexes": [first[resolved], number]},
                )
            first[resolved] = number
        _change(staging, each, f"changes[{number}]")


def stage_replacement(staging: Staging, asked: Replacement) -> None:
    """Stage the replacement of a text.

    Raises:
        WorkspaceError: REVISION_REQUIRED, REVISION_MISMATCH; and all that reading and replacing raise.
    """
    target, content = staging.existing(asked.path)
    if asked.replace_all or asked.revision is not None:  # a text that stands there once was seen there
        demand_revision(target, asked.revision, "replace_all")
    done = replace_text(FileText.decode(content, target.path), asked, target.path)
    _put(staging, target, "edit", done.text.apply(done.splices), ranges(done.splices))
    staging.report.files[target.path]["replacements"] = done.count


def _change(staging: Staging, change: Change, where: str) -> None:
    if change.action in {"create", "write"}:
        _write(staging, change, where)
        return
    target, content = staging.existing(change.path)
    demand_revision(target, change.revision, where)
    if change.action == "delete":
        _delete(staging, target, content)
    elif change.action == "edit":
        text = FileText.decode(content, target.path)
        found = find_splices(change.edits or (), len(text.pieces), target.path)
        _put(staging, target, "edit", text.apply(found), ranges(found))
    else:
        destination = staging.target(change.destination or "")
        _demand_absent(destination, change.action)
        _carry(staging, change.action, target, destination, content, (count_lines(content), 0))


def _write(staging: Staging, change: Change, where: str) -> None:
    target = staging.target(change.path)
    new = (change.content or "").encode()
    if change.action == "create":
        _demand_absent(target, "create")
    elif target.content is not None:
        demand_revision(target, change.revision, where)
    elif change.revision is not None:
        raise mismatch(target, change.revision)
    _put(staging, target, change.action, new, difference(target.content or b"", new))


def _demand_absent(target: StagedFile, action: str) -> None:
    if target.content is not None:
        raise WorkspaceError(
            "PATCH_FAILED",
            f"{action}: {target.path} exists",
            hint="write replaces a file" if action == "create" else "delete it first, or choose another name",
            details={"path": target.path},
        )


def _delete(staging: Staging, target: StagedFile, content: bytes) -> None:
    staging.put(target, None)
    staging.report.tell("delete", target, counts=(0, count_lines(content)))


def _update(staging: Staging, update: Update) -> None:
    target, content = staging.existing(update.path)
    grade: Grade = "exact"
    changed: list[Range] = []
    new = content
    if update.hunks:
        text = FileText.decode(content, target.path)
        placed = place_hunks(update.hunks, text.lines(), target.path)
        grade, new, changed = placed.grade, text.apply(placed.splices), ranges(placed.splices)
        staging.report.warnings += placed.warnings
    if update.destination is None:
        _put(staging, target, "update", new, changed, grade=grade)
    else:
        _carry(staging, "move", target, staging.target(update.destination), new, count_ranges(changed), grade)


def _put(
    staging: Staging,
    target: StagedFile,
    operation: str,
    new: bytes,
    changed: Sequence[Range],
    *,
    counts: tuple[int, int] | None = None,
    grade: Grade | None = None,
) -> None:
    if new == target.content:
        operation, changed, counts = "unchanged", (), None
    staging.put(target, new)
    staging.report.tell(operation, target, changed, counts=counts, grade=grade)


def _carry(
    staging: Staging,
    operation: str,
    target: StagedFile,
    destination: StagedFile,
    new: bytes,
    counts: tuple[int, int],
    grade: Grade | None = None,
) -> None:
    """Let another name have a content, with what the file has besides."""
    changed = difference(destination.before.content if destination.before else b"", new)
    attributes = target.kept
    if operation == "move" and target is not destination:
        staging.put(target, None)
    staging.put(destination, new, attributes)
    staging.report.tell(operation, destination, changed, counts=counts, source=target.path, grade=grade)


def find_splices(edits: Sequence[Edit], total: int, path: str) -> tuple[Splice, ...]:
    """What edits, which are checked, do to a file of ``total`` lines; in the order of its lines.

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
