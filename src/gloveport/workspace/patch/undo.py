"""Keeps what the last changes replaced, to take them back: a file each in the directory of the journal, bounded.

An entry is one line, and the old contents behind it. Which entry is the last is told by the journal, so that it becomes
one at the very moment of its commit. Files are overwritten in turn. They are not forced to the disk: after a power cut
an entry may be torn; then its checksums do not fit, and it is none. Or the journal is older than the entries, for that
of a change of one name is not forced to the disk either; so an entry goes as soon as its change is no more
(``find_latest``).
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import BinaryIO, Final, Literal, TypeAlias

from msgspec import Struct
from pydantic import BaseModel, ConfigDict

from gloveport.openat2 import closing
from gloveport.patch_text.text import count_changed_lines, difference, revision
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.descriptors import READ, write_all
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.patch.commit import last_undoable
from gloveport.workspace.patch.file_swap import Attributes
from gloveport.workspace.patch.journal import DONE, CommitRecord, Journal, seal, unseal
from gloveport.workspace.patch.staging import StagedFile, Staging, mismatch

UndoOperation: TypeAlias = Literal["create", "edit", "delete"]

ENTRIES: Final = 16
LARGE: Final = 1 << 20
"""An entry of more bytes stays alone: it takes the place of all the others. It has at most what one change may have."""

_EMPTY: Final = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class SavedFile(BaseModel):
    """What one file was before a change.

    Attributes:
        path: Of the file.
        after: Revision that the change gave it; None where it went.
        before: Revision that it had; None where it was not.
        size: Of the old content, in bytes.
        attributes: Of the old file.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    after: str | None
    before: str | None
    size: int
    attributes: Attributes | None


class _EntryHead(BaseModel):
    number: int
    files: tuple[SavedFile, ...]
    made: tuple[str, ...]


class UndoEntry(Struct, frozen=True):
    """One change that can be taken back.

    Attributes:
        files: What each file was, with its old content.
        made: Directories that were made for it, the outermost first.
    """

    files: tuple[tuple[SavedFile, bytes | None], ...]
    made: tuple[str, ...]


def save_entry(directory: int, number: int, targets: Sequence[StagedFile], made: Sequence[str]) -> None:
    """Keep what is about to be replaced, in place of what was kept ``ENTRIES`` changes ago.

    Raises:
        OSError: There is no space.
    """
    head = _EntryHead(number=number, files=tuple(map(_describe, targets)), made=tuple(made))
    _write(directory, head, [target.before.content for target in targets if target.before])


def adopt_revisions(directory: int, number: int, revisions: Mapping[str, str]) -> None:
    """Take other revisions, by path, for those that a change gave its files: what has run on them belongs to it.

    Raises:
        OSError: There is no space.
    """
    kept = load_entry(directory, number)
    if kept is None:
        return
    files = (
        one.model_copy(update={"after": one.after and revisions.get(one.path, one.after)}) for one, _ in kept.files
    )
    head = _EntryHead(number=number, files=tuple(files), made=kept.made)
    _write(directory, head, [content for _, content in kept.files if content is not None])


def _write(directory: int, head: _EntryHead, contents: Sequence[bytes]) -> None:
    if sum(map(len, contents)) > LARGE:
        for slot in range(ENTRIES):
            with suppress(FileNotFoundError):
                os.unlink(_file_name(slot), dir_fd=directory)
    with closing(os.open(_file_name(head.number), _WRITE, 0o600, dir_fd=directory)) as descriptor:
        if os.fstat(descriptor).st_size > LARGE:
            os.ftruncate(descriptor, 0)
        write_all(descriptor, b"".join((seal(head.model_dump_json().encode()), *contents)))


def forget_entry(directory: int, number: int) -> None:
    """What was kept under a number can't be taken back: it was, or it has not happened."""
    with suppress(FileNotFoundError):
        os.close(os.open(_file_name(number), _EMPTY, dir_fd=directory))


def forget_entries_beyond(directory: int, number: int) -> None:
    """The same of all that is kept under larger numbers."""
    for slot in range(ENTRIES):
        with suppress(FileNotFoundError), _open_entry(directory, slot) as file:
            head = _read_head(file)
            if head is not None and head.number > number:
                forget_entry(directory, slot)


def load_entry(directory: int, number: int) -> UndoEntry | None:
    """What was kept under a number, if it is still there and whole."""
    try:
        opened = _open_entry(directory, number)
    except FileNotFoundError:
        return None
    with opened as file:
        head = _read_head(file)
        if head is None or head.number != number:
            return None
        files = [(kept, None if kept.before is None else file.read(kept.size)) for kept in head.files]
    if any(content is not None and revision(content) != kept.before for kept, content in files):
        return None
    return UndoEntry(tuple(files), head.made)


def _open_entry(directory: int, number: int) -> BinaryIO:
    return os.fdopen(os.open(_file_name(number), READ, dir_fd=directory), "rb")


def _read_head(file: BinaryIO) -> _EntryHead | None:
    """The first line of an entry; None where it is torn."""
    text = unseal(file.readline())
    return None if text is None else _EntryHead.model_validate_json(text)


def _file_name(number: int) -> str:
    return f"undo-{number % ENTRIES}"


def _describe(target: StagedFile) -> SavedFile:
    before = target.before
    return SavedFile(
        path=target.path,
        after=target.revision,
        before=before.revision if before else None,
        size=len(before.content) if before else 0,
        attributes=before.attributes if before else None,
    )


def find_latest(tree: Tree, journal: Journal) -> int:
    """Number of the last change that can be taken back; 0 where there is none. Once ``recover`` was called.

    The journal tells it. But after a power cut that may be older than the tree: of changes of one name nothing but the
    content is forced to the disk. So a change that comes after that of the journal is the last one where all that was
    kept of it is there and its files are as it left them. Else an older change would be taken back beneath it.
    """
    told = last = last_undoable(journal.last())
    for number in range(told + 1, told + 1 + ENTRIES):
        entry = load_entry(journal.directory, number)
        if entry is None:
            break
        if _stands(tree, entry):
            last = number
    return last


def catch_up(tree: Tree, journal: Journal) -> None:
    """Let the journal, and what is kept, know the last change as ``find_latest`` does. Once ``recover`` was called."""
    last = find_latest(tree, journal)
    forget_entries_beyond(journal.directory, last)
    if last != last_undoable(journal.last()):
        journal.begin(CommitRecord(steps=(), made=(), emptied=(), undo=(last, last)))
        journal.end(DONE)


def undo_operation(kept: SavedFile) -> UndoOperation:
    """What taking a change back does to one of its files."""
    if kept.after is None:
        return "create"
    return "delete" if kept.before is None else "edit"


def restore_file(staging: Staging, kept: SavedFile, content: bytes | None) -> None:
    """Let a file be what it was before a change.

    Raises:
        WorkspaceError: REVISION_MISMATCH where it was changed since; or as ``Staging.target``.
    """
    target = staging.target(kept.path)
    now = target.content
    if not _is_left(kept, target):
        raise mismatch(target, kept.after)
    changed = difference(now or b"", content or b"")
    staging.put(target, content, kept.attributes)
    word = {"create": "add", "edit": "update", "delete": "delete"}[undo_operation(kept)]
    counts = count_changed_lines(now or b"", content or b"")
    staging.report.tell(word, target, changed, counts=counts)


def _stands(tree: Tree, entry: UndoEntry) -> bool:
    with ExitStack() as stack:
        staging = Staging(tree, stack)
        try:
            return all(_is_left(kept, staging.target(kept.path)) for kept, _ in entry.files)
        except WorkspaceError:
            return False


def _is_left(kept: SavedFile, target: StagedFile) -> bool:
    return (target.path, target.revision) == (kept.path, kept.after)
