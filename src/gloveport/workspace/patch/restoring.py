"""Taking a change back: which one is the last, what that does to its files, and these as they were."""

from contextlib import ExitStack
from typing import Literal, TypeAlias

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.patch import undo
from gloveport.workspace.patch.commit import undoable
from gloveport.workspace.patch.journal import DONE, Journal, Record
from gloveport.workspace.patch.staging import Staging, mismatch
from gloveport.workspace.patch.target import Target
from gloveport.workspace.patch.text import count, difference, revision

Operation: TypeAlias = Literal["create", "edit", "delete"]


def latest(tree: Tree, journal: Journal) -> int:
    """Number of the last change that can be taken back; 0 where there is none. Once ``recover`` was called.

    The journal tells it. But after a power cut that may be older than the tree: of changes of one name nothing but the
    content is forced to the disk. So a change that comes after that of the journal is the last one where all that was
    kept of it is there and its files are as it left them. Else an older change would be taken back beneath it.
    """
    told = last = undoable(journal)
    for number in range(told + 1, told + 1 + undo.ENTRIES):
        entry = undo.entry(journal.directory, number)
        if entry is None:
            break
        if _stands(tree, entry):
            last = number
    return last


def caught_up(tree: Tree, journal: Journal) -> None:
    """Let the journal, and what is kept, know the last change as ``latest`` does. Once ``recover`` was called."""
    last = latest(tree, journal)
    undo.forget_beyond(journal.directory, last)
    if last != undoable(journal):
        journal.begin(Record(steps=(), made=(), emptied=(), undo=(last, last)))
        journal.end(DONE)


def operation(kept: undo.Kept) -> Operation:
    """What taking a change back does to one of its files."""
    if kept.after is None:
        return "create"
    return "delete" if kept.before is None else "edit"


def restore(staging: Staging, kept: undo.Kept, content: bytes | None) -> None:
    """Let a file be what it was before a change.

    Raises:
        WorkspaceError: REVISION_MISMATCH where it was changed since; or as ``Staging.target``.
    """
    target = staging.target(kept.path)
    now = target.content
    if not _is_left(kept, target):
        raise mismatch(kept.path, kept.after, now)
    changed = difference(now or b"", content or b"")
    staging.put(target, content, kept.attributes)
    told = {"create": "add", "edit": "update", "delete": "delete"}[operation(kept)]
    staging.report.tell(kept.path, told, content, changed)
    staging.report.summarise(told, kept.path)
    staging.report.counted(count(content or b""), count(now or b""))


def _stands(tree: Tree, entry: undo.Entry) -> bool:
    """Whether the files of a change are as it left them."""
    with ExitStack() as stack:
        staging = Staging(tree, stack)
        try:
            return all(_is_left(kept, staging.target(kept.path)) for kept, _ in entry.files)
        except WorkspaceError:
            return False


def _is_left(kept: undo.Kept, target: Target) -> bool:
    now = target.content
    return target.place.path == kept.path and (None if now is None else revision(now)) == kept.after
