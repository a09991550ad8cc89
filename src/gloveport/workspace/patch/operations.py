"""Stages the operations of a patch, the changes of ``apply_changes``, and one text in place of another.

A text to replace is found exactly, anywhere in the file's lines. Other lines stay unchanged, byte for byte. The new
text gets the file's line breaks.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, islice
from typing import Final

from msgspec import Struct

from gloveport.model.json_value import JsonValue
from gloveport.patch_text.matching import describe_nearest, describe_place, place_hunks
from gloveport.patch_text.parsing import Add, Delete, Operation, Update
from gloveport.patch_text.text import (
    FileText,
    Grade,
    Range,
    Splice,
    count_lines,
    count_ranges,
    difference,
    ranges,
)
from gloveport.workspace.errors import WorkspaceError, translate_patch_errors
from gloveport.workspace.patch.changes import Change, Replacement, find_splices
from gloveport.workspace.patch.file_swap import MAX_BYTES
from gloveport.workspace.patch.staging import StagedFile, Staging, demand_revision, mismatch

MAX_PLACES: Final = 100_000
_CANDIDATES: Final = 8


@translate_patch_errors()
def stage_patch(staging: Staging, operations: Sequence[Operation]) -> None:
    """Stage the operations of a patch in order.

    Raises:
        WorkspaceError: PATCH_FAILED if two change the same file; and all that reading and matching raise.
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


@translate_patch_errors()
def stage_changes(staging: Staging, changes: Sequence[Change]) -> None:
    """Stage these (checked) changes in order.

    Raises:
        WorkspaceError: INVALID_ARGUMENT where two name the same file; PATCH_FAILED if a file exists that must not;
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


@translate_patch_errors()
def stage_replacement(staging: Staging, replacement: Replacement) -> None:
    """Stage the replacement of a text.

    Raises:
        WorkspaceError: REVISION_REQUIRED, REVISION_MISMATCH; and all that reading and replacing raise.
    """
    target, content = staging.existing(replacement.path)
    if replacement.replace_all or replacement.revision is not None:  # a text that occurs once was seen by the caller
        demand_revision(target, replacement.revision, "replace_all")
    done = replace_text(FileText.decode(content, target.path), replacement, target.path)
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
        placed = place_hunks(update.hunks, text.lines(), target.path, staging.effort)
        grade, new, changed = placed.grade, text.apply(placed.splices), ranges(placed.splices)
        staging.report.warnings += placed.warnings
    if update.destination is None:
        _put(staging, target, "update", new, changed, grade=grade)
    else:
        destination = staging.target(update.destination)
        if destination is not target and destination.content is not None:
            staging.report.warnings.append(f"{destination.path} was there, and is replaced by {target.path}")
        _carry(staging, "move", target, destination, new, count_ranges(changed), grade)


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
    """Move a content to another name, with the file's attributes."""
    changed = difference(destination.before.content if destination.before else b"", new)
    attributes = target.kept_attributes
    if operation == "move" and target is not destination:
        staging.put(target, None)
    staging.put(destination, new, attributes)
    staging.report.tell(operation, destination, changed, counts=counts, source=target.path, grade=grade)


class Replaced(Struct, frozen=True):
    """The result of a replacement.

    Attributes:
        text: The original text, except that its last line may have gained or lost its ending.
        splices: In order, not overlapping.
        count: How often the text occurred.
    """

    text: FileText
    splices: tuple[Splice, ...]
    count: int


def replace_text(text: FileText, replacement: Replacement, path: str) -> Replaced:
    """Replace the text in a file; ``path`` is its name in errors.

    Raises:
        WorkspaceError: INVALID_ARGUMENT where the texts are the same; PATCH_CONTEXT_NOT_FOUND;
            PATCH_CONTEXT_AMBIGUOUS; PATCH_FAILED where the file would become too large.
    """
    old, new = (each.replace("\r\n", "\n") for each in (replacement.old_string, replacement.new_string))
    if old == new:
        raise WorkspaceError("INVALID_ARGUMENT", "old_string and new_string are the same")
    lines = text.lines()
    whole = "\n".join(lines) + ("\n" if lines and text.ended else "")
    count = whole.count(old)
    if not count:
        raise _not_found(lines, old, path)
    offsets = [0, *accumulate(len(line) + 1 for line in lines)]
    if count > 1 and not replacement.replace_all:
        few = islice(_find(whole, old), _CANDIDATES)
        raise _ambiguous(lines, [bisect_right(offsets, start) - 1 for start in few], count, path)
    if count > MAX_PLACES or len(whole) + count * (len(new) - len(old)) > MAX_BYTES:  # checked before the text is built
        raise WorkspaceError(
            "PATCH_FAILED",
            f"{path} would be larger than {MAX_BYTES >> 20} MiB, or changed in more than {MAX_PLACES} places",
            hint="change it with a command",
            details={"path": path, "match_count": count},
        )
    offsets[-1] = len(whole)
    starts = deque(_find(whole, old))
    splices = []
    while starts:
        first, last, changed = _span(whole, offsets, starts, (len(old), new))
        if last == len(lines):
            text = replace(text, ended=changed.endswith("\n") or not changed)
        splices.append(Splice(first, last, _split(changed)))
    return Replaced(text, tuple(splices), count)


def _find(whole: str, old: str) -> Iterator[int]:
    at = whole.find(old)
    while at >= 0:
        yield at
        at = whole.find(old, at + len(old))


def _span(whole: str, offsets: Sequence[int], starts: deque[int], change: tuple[int, str]) -> tuple[int, int, str]:
    """The lines with the next places, up to the first line end that remains one; and their new text. ``offsets`` are
    those of each line, and of the file's end. Places of the span are removed from ``starts``; ``change`` has the length
    of the old text, and the new text.
    """
    length, new = change
    first = bisect_right(offsets, starts[0]) - 1
    end, cursor, final = first, offsets[first], ""
    pieces: list[str] = []
    while True:
        end += 1
        while starts and starts[0] < offsets[end]:
            for piece in (whole[cursor : starts[0]], new):
                pieces.append(piece)
                final = piece[-1:] or final
            cursor = starts.popleft() + length
            end = max(end, bisect_left(offsets, cursor))
        pieces.append(whole[cursor : offsets[end]])
        cursor = max(cursor, offsets[end])
        final = pieces[-1][-1:] or final
        if final in {"", "\n"} or end == len(offsets) - 1:
            return first, end, "".join(pieces)


def _split(changed: str) -> tuple[str, ...]:
    lines = changed.split("\n")
    return tuple(lines if lines[-1] else lines[:-1])


def _not_found(lines: Sequence[str], old: str, path: str) -> WorkspaceError:
    return WorkspaceError(
        "PATCH_CONTEXT_NOT_FOUND",
        f"old_string does not stand in {path}",
        hint="read the file as it is now; each blank counts, and the numbers of lines are no part of them",
        details={"path": path, "match_count": 0, "total_lines": len(lines), **describe_nearest(lines, old.split("\n"))},
    )


def _ambiguous(lines: Sequence[str], few: Sequence[int], count: int, path: str) -> WorkspaceError:
    candidates: list[JsonValue] = [{"line": line + 1, "text": describe_place(lines, line)} for line in few]
    return WorkspaceError(
        "PATCH_CONTEXT_AMBIGUOUS",
        f"old_string stands in {count} places of {path}",
        hint="give it more of the text around, or say replace_all with the file's revision",
        details={
            "path": path,
            "match_count": count,
            "candidate_lines": [line + 1 for line in few],
            "candidates": candidates,
        },
    )
