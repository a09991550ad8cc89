"""The operations of a patch, and the changes of ``apply_changes``, on staged files."""

from collections.abc import Sequence

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.patch.edits import Change, splices
from gloveport.workspace.patch.grammar import Add, Delete, Operation, Update
from gloveport.workspace.patch.likeness import Grade
from gloveport.workspace.patch.matching import place
from gloveport.workspace.patch.staging import Staging, demand_revision, mismatch
from gloveport.workspace.patch.target import Target
from gloveport.workspace.patch.text import Range, Text, count, difference, ranges


def patch(staging: Staging, operations: Sequence[Operation]) -> None:
    """Stage the operations of a patch, in their order.

    Raises:
        WorkspaceError: PATCH_FAILED where two are about the same file; and all that reading and matching raise.
    """
    first: dict[str, int] = {}
    for number, operation in enumerate(operations):
        target = staging.target(operation.path)
        path = target.place.path
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
                _add(staging, target, "".join(f"{line}\n" for line in lines).encode())
            case Delete():
                _delete(staging, *staging.existing(operation.path))
            case Update():
                _update(staging, operation)


def change(staging: Staging, changes: Sequence[Change]) -> None:
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


def _change(staging: Staging, change: Change, where: str) -> None:
    if change.action in {"create", "write"}:
        _write(staging, change, where)
        return
    target, content = staging.existing(change.path)
    demand_revision(target, content, change.revision, where)
    if change.action == "delete":
        _delete(staging, target, content)
    elif change.action == "edit":
        text = Text.decoded(content, target.place.path)
        found = splices(change.edits or (), len(text.pieces), target.place.path)
        added = sum(len(splice.lines) for splice in found)
        removed = sum(splice.end - splice.start for splice in found)
        _put(staging, target, "edit", text.spliced(found), ranges(found), added, removed)
    else:
        destination = staging.target(change.destination or "")
        _demand_absent(destination, change.action)
        staging.report.counted(count(content), 0)
        _carry(staging, change.action, target, destination, content)


def _write(staging: Staging, change: Change, where: str) -> None:
    target = staging.target(change.path)
    new = (change.content or "").encode()
    if change.action == "create":
        _demand_absent(target, "create")
    elif target.content is not None:
        demand_revision(target, target.content, change.revision, where)
    elif change.revision is not None:
        raise mismatch(target.place.path, change.revision, None)
    old = target.content or b""
    changed = difference(old, new)
    added, removed = (changed[0]["added_lines"], changed[0]["removed_lines"]) if changed else (0, 0)
    _put(staging, target, change.action, new, changed, added, removed)


def _demand_absent(target: Target, action: str) -> None:
    if target.content is not None:
        raise WorkspaceError(
            "PATCH_FAILED",
            f"{action}: {target.place.path} exists",
            hint="write replaces a file" if action == "create" else "delete it first, or choose another name",
            details={"path": target.place.path},
        )


def _add(staging: Staging, target: Target, new: bytes) -> None:
    old = target.content or b""
    _put(staging, target, "add", new, difference(old, new), count(new), count(old))


def _delete(staging: Staging, target: Target, content: bytes) -> None:
    staging.put(target, None)
    staging.report.counted(0, count(content))
    staging.report.tell(target.place.path, "delete", None)
    staging.report.summarise("delete", target.place.path)


def _update(staging: Staging, update: Update) -> None:
    target, content = staging.existing(update.path)
    grade: Grade = "exact"
    changed: list[Range] = []
    new, added, removed = content, 0, 0
    if update.hunks:
        text = Text.decoded(content, target.place.path)
        placed = place(update.hunks, text.lines(), target.place.path)
        grade, added, removed = placed.grade, placed.additions, placed.removals
        new, changed = text.spliced(placed.splices), ranges(placed.splices)
        staging.report.warnings += placed.warnings
    if update.destination is None:
        _put(staging, target, "update", new, changed, added, removed, grade)
        return
    staging.report.counted(added, removed)
    _carry(staging, "move", target, staging.target(update.destination), new, grade)


def _put(
    staging: Staging,
    target: Target,
    operation: str,
    new: bytes,
    changed: Sequence[Range],
    added: int,
    removed: int,
    grade: Grade | None = None,
) -> None:
    """Let a file have a new content where it is."""
    if new == target.content:
        operation, changed, added, removed = "unchanged", (), 0, 0
    staging.put(target, new)
    staging.report.counted(added, removed)
    staging.report.tell(target.place.path, operation, new, changed, grade=grade)
    staging.report.summarise(operation, target.place.path)


def _carry(
    staging: Staging, operation: str, target: Target, destination: Target, new: bytes, grade: Grade | None = None
) -> None:
    """Let another name have a content, with what the file has besides."""
    source, there = target.place.path, destination.place.path
    changed = difference(destination.before.content if destination.before else b"", new)
    attributes = target.kept
    if operation == "move" and target is not destination:
        staging.put(target, None)
    staging.put(destination, new, attributes)
    staging.report.tell(there, operation, new, changed, source, grade)
    if operation == "move" and target is not destination:
        staging.report.tell(source, "delete", None)
    staging.report.summarise(operation, source, there)
