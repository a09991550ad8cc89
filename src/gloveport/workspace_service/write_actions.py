"""Describes what a change of files would do, for the policy and for approvers."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Final

from gloveport.model.workspace import Operation, PathChange, WriteFiles
from gloveport.patch_text import parsing
from gloveport.patch_text.patch_error import PatchError
from gloveport.policy.decisions.write_gates import write_action
from gloveport.untrusted_text import printable
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.gitignore import find_ignored
from gloveport.workspace.files.spelling import check_path
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.patch.changes import Change, Replacement
from gloveport.workspace.patch.writer import Writer
from gloveport.workspace_service.approval_text import measure

_OPERATIONS: Final[Mapping[type, Operation]] = {
    parsing.Add: "create",
    parsing.Delete: "delete",
    parsing.Update: "edit",
}


def patch_action(tree: Tree, patch: str) -> WriteFiles:
    """What a patch would do. An unreadable patch does nothing: applying it reports why."""
    changes: list[PathChange] = []
    with suppress(PatchError):
        changes = path_changes(parsing.parse_patch(patch))
    return make_write_action(tree, _place(tree, changes), patch)


def path_changes(operations: Sequence[parsing.Operation]) -> list[PathChange]:
    """Which paths the operations of a patch change, and how."""
    moved = [
        PathChange(operation="move", path=one.destination)
        for one in operations
        if isinstance(one, parsing.Update) and one.destination
    ]
    return [PathChange(operation=_OPERATIONS[type(one)], path=one.path) for one in operations] + moved


def changes_action(tree: Tree, changes: Sequence[Change]) -> WriteFiles:
    """What changes by line number would do. A copy only reads the first of its two paths."""
    plain = [change.model_dump(mode="json", exclude_none=True) for change in changes]
    sources = [PathChange(operation=one.action, path=one.path) for one in changes if one.action != "copy"]
    destinations = [PathChange(operation=one.action, path=one.destination) for one in changes if one.destination]
    return make_write_action(
        tree, _place(tree, sources + destinations), json.dumps(plain, ensure_ascii=False, sort_keys=True)
    )


def replacement_action(tree: Tree, replacement: Replacement) -> WriteFiles:
    """What the replacement of a text would do."""
    content = json.dumps(
        {name: getattr(replacement, name) for name in Replacement.model_fields}, ensure_ascii=False, sort_keys=True
    )
    return make_write_action(tree, _place(tree, [PathChange(operation="edit", path=replacement.path)]), content)


def undo_action(writer: Writer) -> WriteFiles:
    """What undo would take back. It comes to no gate: it creates nothing that was not there before."""
    return WriteFiles(changes=tuple(PathChange(operation=how, path=path) for how, path in writer.describe_undo()))


def make_write_action(
    tree: Tree,
    placed: Sequence[PathChange],
    content: str,
    find: Callable[[Tree, Iterable[str]], AbstractSet[str]] = find_ignored,
) -> WriteFiles:
    """The action to decide on. The changes are ``placed``: with the real paths of their files, however spelled.
    ``find`` finds the paths that git ignores.
    """
    action = write_action(placed, find(tree, [change.path for change in placed]))
    size, digest = measure(content)
    return action.model_copy(update={"bytes": size, "sha256": digest})


def _place(tree: Tree, changes: Sequence[PathChange]) -> list[PathChange]:
    return [PathChange(operation=change.operation, path=_lies_at(tree, change.path)) for change in changes]


def _lies_at(tree: Tree, path: str) -> str:
    """The path of a file to write; if it can't be written, the requested path, in canonical spelling if it has one."""
    with suppress(WorkspaceError), tree.locate(path) as place:
        return place.path
    with suppress(WorkspaceError):
        return check_path(path)
    return path


def demand_unprotected(tree: Tree, action: WriteFiles) -> None:
    """Raise ``WorkspaceError`` PROTECTED_PATH where it writes to a protected path: nobody can permit that."""
    for change in action.changes:
        try:
            with tree.locate(change.path):
                pass
        except WorkspaceError as error:
            if error.code == "PROTECTED_PATH":
                raise


def changes_text(changes: Sequence[Change]) -> str:
    """Changes for a person: what each does, and the lines that it puts in, behind a plus."""
    return "\n".join(line for change in changes for line in _lines(change))


def replacement_text(replacement: Replacement) -> str:
    """A replacement for a person: which file, the lines that go, behind a minus, and those that come."""
    where = "wherever it stands in" if replacement.replace_all else "in"
    removed_lines = [f"-{line}" for line in replacement.old_string.split("\n")]
    return "\n".join(
        (f"replace {where} {printable(replacement.path)}", *removed_lines, *_added_lines(replacement.new_string))
    )


def _lines(change: Change) -> Iterator[str]:
    to = f" -> {printable(change.destination)}" if change.destination else ""
    yield f"{change.action} {printable(change.path)}{to}"
    yield from _added_lines(change.content)
    for edit in change.edits or ():
        place = f"{edit.start_line}-{edit.end_line or edit.start_line}" if edit.start_line else f"{edit.line}"
        yield f"{edit.op} {place}"
        yield from _added_lines(edit.content)


def _added_lines(content: str | None) -> list[str]:
    return [f"+{line}" for line in content.split("\n")] if content else []
