"""Keeps the files that the last changes replaced, for undo: one entry file for each change in the journal's directory,
bounded.

An entry is one line, followed by the old contents. The journal tells which entry is the last, so that an entry becomes
valid at the very moment of its commit. Files are overwritten in turn. They are not synced: after a power cut an entry
may be torn; then its checksums do not match, and it is invalid. Or the journal is older than the entries, since it is
not synced either for a change of one name; so an entry is removed as soon as its change is undone (``find_latest``).
"""

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import BinaryIO, Final, Literal, TypeAlias

from msgspec import Struct
from pydantic import BaseModel, ConfigDict

from gloveport.file_descriptors import READ, closing, write_all
from gloveport.patch_text.text import count_changed_lines, difference, revision
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.patch.commit import last_undoable
from gloveport.workspace.patch.file_swap import Attributes
from gloveport.workspace.patch.journal import DONE, CommitRecord, Journal, seal, unseal
from gloveport.workspace.patch.staging import StagedFile, Staging, mismatch

UndoOperation: TypeAlias = Literal["create", "edit", "delete"]

ENTRIES: Final = 16
LARGE: Final = 1 << 20
"""A larger entry replaces all others. It is at most as large as one change may be."""

_MOST_BYTES: Final = 1 << 27
"""No entry is larger: the contents of one change, and its files' extended attributes."""

_EMPTY: Final = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class SavedFile(BaseModel):
    """One file as it was before a change.

    Attributes:
        path: Path of the file.
        after: Its revision after the change; None if it was deleted.
        before: Its revision before; None if it did not exist.
        size: Size of the old content in bytes.
        attributes: Of the old file; None where the change has kept them: they may have been changed since.
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
    """One change that can be undone.

    Attributes:
        files: Each old file, with its content.
        new_directories: Directories that were made for it, the outermost first.
    """

    files: tuple[tuple[SavedFile, bytes | None], ...]
    new_directories: tuple[str, ...]


def save_entry(directory: int, number: int, targets: Sequence[StagedFile], new_directories: Sequence[str]) -> None:
    """Save the files that are about to be replaced, over the entry of ``ENTRIES`` changes ago.

    Raises:
        OSError: There is no space.
    """
    head = _EntryHead(number=number, files=tuple(map(_describe, targets)), made=tuple(new_directories))
    _write(directory, head, [target.before.content for target in targets if target.before])


def adopt_revisions(directory: int, number: int, revisions: Mapping[str, str]) -> None:
    """Replace the revisions, by path, that a change gave its files: changes by its hooks belong to it.

    Raises:
        OSError: There is no space.
    """
    entry = load_entry(directory, number)
    if entry is None:
        return
    files = (
        one.model_copy(update={"after": one.after and revisions.get(one.path, one.after)}) for one, _ in entry.files
    )
    head = _EntryHead(number=number, files=tuple(files), made=entry.new_directories)
    _write(directory, head, [content for _, content in entry.files if content is not None])


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
    """Remove an entry: its change was undone, or has not happened."""
    with suppress(OSError):  # none that is left counts: its files are not as it left them
        os.close(os.open(_file_name(number), _EMPTY, dir_fd=directory))


def forget_entries_beyond(directory: int, number: int) -> None:
    """Remove all entries with larger numbers."""
    for slot in range(ENTRIES):
        with suppress(OSError), _open_entry(directory, slot) as file:
            head = _read_head(file)
            if head is not None and head.number > number:
                forget_entry(directory, slot)


def load_entry(directory: int, number: int) -> UndoEntry | None:
    """The entry of a number, if it still exists and is whole."""
    try:
        opened = _open_entry(directory, number)
    except OSError:
        return None
    with opened as file:
        head = _read_head(file)
        if head is None or head.number != number:
            return None
        files = [(one, None if one.before is None else file.read(one.size)) for one in head.files]
    if any(content is not None and revision(content) != one.before for one, content in files):
        return None
    return UndoEntry(tuple(files), head.made)


def _open_entry(directory: int, number: int) -> BinaryIO:
    """Raises OSError where there is none, or what is there is none."""
    descriptor = os.open(_file_name(number), READ, dir_fd=directory)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no entry")
    return os.fdopen(descriptor, "rb")


def _read_head(file: BinaryIO) -> _EntryHead | None:
    """The first line of an entry; None if it is torn, or another version has written it."""
    text = unseal(file.readline())
    with suppress(ValueError):
        return None if text is None else _EntryHead.model_validate_json(text)
    return None


def _file_name(number: int) -> str:
    return f"undo-{number % ENTRIES}"


def _describe(target: StagedFile) -> SavedFile:
    before = target.before
    keeps_attributes = target.content is not None and target.attributes is None
    return SavedFile(
        path=target.path,
        after=target.revision,
        before=before.revision if before else None,
        size=len(before.content) if before else 0,
        attributes=before.attributes if before and not keeps_attributes else None,
    )


def find_latest(tree: Tree, journal: Journal) -> int:
    """Number of the last change that can be undone; 0 if there is none. Call it after ``recover``.

    The journal tells it. But after a power cut the journal may be older than the tree: a change of one name only syncs
    the content. So a change after the journal's is the last one if its entry is whole and its files are as it left
    them. Else an older change would be undone beneath it.
    """
    recorded = last = last_undoable(journal.last())
    for number in range(recorded + 1, recorded + 1 + ENTRIES):
        entry = load_entry(journal.directory, number)
        if entry is None:
            break
        if _stands(tree, entry):
            last = number
    return last


def catch_up(tree: Tree, journal: Journal) -> None:
    """Bring the journal and the entries up to the change of ``find_latest``. Call it after ``recover``."""
    last = find_latest(tree, journal)
    forget_entries_beyond(journal.directory, last)
    if last != last_undoable(journal.last()):
        journal.begin(CommitRecord(steps=(), made=(), emptied=(), undo=(last, last)))
        journal.end(DONE)


def undo_operation(saved_file: SavedFile) -> UndoOperation:
    """What undoing a change does to one of its files."""
    if saved_file.after is None:
        return "create"
    return "delete" if saved_file.before is None else "edit"


def restore_file(staging: Staging, saved_file: SavedFile, content: bytes | None) -> None:
    """Stage a file as it was before a change.

    Raises:
        WorkspaceError: REVISION_MISMATCH if it was changed since; or as ``Staging.target``.
    """
    target = staging.target(saved_file.path)
    now = target.content
    if not _is_left(saved_file, target):
        raise mismatch(target, saved_file.after)
    changed = difference(now or b"", content or b"")
    staging.put(target, content, saved_file.attributes)
    word = {"create": "add", "edit": "update", "delete": "delete"}[undo_operation(saved_file)]
    counts = count_changed_lines(now or b"", content or b"")
    staging.report.tell(word, target, changed, counts=counts)


def _stands(tree: Tree, entry: UndoEntry) -> bool:
    with ExitStack() as stack:
        staging = Staging(tree, stack)
        try:
            return all(_is_left(saved_file, staging.target(saved_file.path)) for saved_file, _ in entry.files)
        except WorkspaceError:
            return False


def _is_left(saved_file: SavedFile, target: StagedFile) -> bool:
    return (target.path, target.revision) == (saved_file.path, saved_file.after)
