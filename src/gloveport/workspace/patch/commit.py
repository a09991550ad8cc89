"""Writes all files of a change, or none: even if the process is killed, the power fails, or a program interferes.

Order: the journal names the steps; directories and new contents are made under hidden names; all files are checked to
be those that the change was made for; each is swapped; the directories are synced to the disk; the journal says
"committed"; the hidden files are removed. Until that word is written everything is taken back, after a crash by the
same code as after a conflict.

A kill loses no completed write. The syncs are for a power cut, and in the order that this needs: contents and the
journal before names, names before the word, the word before the hidden files go. A change of a single name only syncs
its content. If the power fails soon after, it may be undone as a whole although it was acknowledged, or a hidden file
may be left; it is never half done.
"""

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Final, Literal, TypeGuard

from msgspec import Struct, field

from gloveport.file_descriptors import LIST
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.spelling import native_name, parent_of
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.patch import file_swap
from gloveport.workspace.patch.file_swap import Attributes, Changed, FileStep
from gloveport.workspace.patch.journal import BEGUN, COMMITTED, DONE, TAKEN_BACK, CommitRecord, Journal, LastCommit
from gloveport.workspace.patch.staging import StagedFile, conflict

HIDDEN: Final = ".gloveport-"
"""Prefix of hidden names."""

MAX_MADE: Final = 200
"""The most directories that one change makes. Each takes a descriptor until the end; one path could name 2,000."""


class Recovery(Struct, frozen=True):
    """The recovery of an interrupted commit.

    Attributes:
        outcome: Whether none was interrupted, the old files are back, or the new ones stay.
        untouched_files: Files that somebody changed after the crash, which were therefore not touched.
    """

    outcome: Literal["nothing", "old", "new"]
    untouched_files: tuple[str, ...] = ()


def last_undoable(last: LastCommit | None) -> int:
    """Number of the last change that can be undone; 0 if there is none. Call it after ``recover``."""
    return 0 if last is None else last[1].undo[last[0] in {COMMITTED, DONE}]


def is_interrupted(last: LastCommit | None) -> TypeGuard[LastCommit]:
    """Whether ``recover`` has work to do."""
    return last is not None and last[0] in {BEGUN, COMMITTED}


def plan_commit(targets: Sequence[StagedFile], undo: tuple[int, int], emptied: Sequence[str] = ()) -> CommitRecord:
    """Plan the steps of a commit; unchanged targets need none. ``undo`` has the number of the last change that can be
    undone, before and afterwards. ``emptied`` are directories to remove afterwards if they are empty, the innermost
    first.

    Raises:
        WorkspaceError: PATCH_FAILED where a name would be a file and a directory, or directories are too many.
    """
    written = [target.place for target in targets if target.changes and target.content is not None]
    new_directories = {path for place in written for path in list(_ancestors(place.path))[: len(place.missing)]}
    if both := new_directories & {place.path for place in written}:
        raise WorkspaceError("PATCH_FAILED", f"{min(both)} would be a file and a directory")
    if len(new_directories) > MAX_MADE:
        raise WorkspaceError("PATCH_FAILED", f"more than {MAX_MADE} directories at once", hint="split the change")
    return CommitRecord(
        steps=tuple(_step(target) for target in targets if target.changes),
        made=tuple(sorted(new_directories, key=lambda path: (path.count("/"), path))),
        emptied=tuple(emptied),
        undo=undo,
    )


@contextmanager
def commit(tree: Tree, journal: Journal, targets: Sequence[StagedFile], record: CommitRecord) -> Iterator[list[str]]:
    """Carry out the planned steps of a commit, after ``recover`` has put the tree in order, under the locked journal.
    Unchanged targets are only checked. On leaving, hidden files are removed.

    Yields:
        Warnings: attributes of files that could not be kept.

    Raises:
        WorkspaceError: PATCH_CONFLICT where somebody else changed a file meanwhile, PATCH_FAILED where the file system
            refuses: nothing is written then. PATCH_ROLLBACK_FAILED: that could not be brought about, and will be tried
            again before the next change.
    """
    with ExitStack() as stack:
        descriptors = _open_known(tree, map(parent_of, record.emptied), stack)
        for place in (target.place for target in targets):
            descriptors[list(_ancestors(place.path))[len(place.missing)]] = place.parent
        directories = _Directories(stack, descriptors)
        try:
            journal.begin(record)
        except OSError as error:  # another disk than that of the files
            raise WorkspaceError(
                "PATCH_FAILED",
                f"the journal of changes can't be written: {error.strerror}; no file was",
                hint="the owner has to make room on the disk of the state directory",
                retryable=True,
            ) from error
        try:
            warnings = _write(record, targets, directories)
            journal.commit(record)
        except BaseException as error:
            _take_back(record, directories.descriptors, directories.new_paths, journal)
            if isinstance(error, Changed | OSError):
                raise _as_workspace_error(error) from error
            raise
        try:
            yield warnings
        finally:
            with suppress(OSError):  # files that can't be removed are tried again before the next change
                _clear(record, directories.descriptors, journal)


def recover(tree: Tree, journal: Journal) -> Recovery:
    """Roll an interrupted commit back or complete it.

    Raises:
        WorkspaceError: PATCH_ROLLBACK_FAILED.
    """
    last = journal.last()
    if not is_interrupted(last):
        return Recovery("nothing")
    state, record = last
    with ExitStack() as stack:
        paths = (*(step.path for step in record.steps), *record.made, *record.emptied)
        directories = _open_known(tree, map(parent_of, paths), stack)
        if state == BEGUN:
            return Recovery("old", _take_back(record, directories, record.made, journal))
        with suppress(OSError):
            _clear(record, directories, journal)
        return Recovery("new")


class _Directories(Struct):
    """Descriptors of a commit's directories, by path."""

    stack: ExitStack
    descriptors: dict[str, int]
    new_paths: list[str] = field(default_factory=list)

    def __getitem__(self, path: str) -> int:
        return self.descriptors[parent_of(path)]

    def make(self, path: str) -> None:
        """Make a directory in a known one."""
        name, parent = native_name(path), self[path]
        try:
            os.mkdir(name, 0o755, dir_fd=parent)
            self.new_paths.append(path)
            descriptor = os.open(name, LIST, dir_fd=parent)
        except (FileExistsError, FileNotFoundError, NotADirectoryError) as error:
            raise Changed(path) from error
        self.stack.callback(os.close, descriptor)
        if owner := Attributes.fresh(parent).owner:
            os.fchown(descriptor, *owner)
        self.descriptors[path] = descriptor


def _write(record: CommitRecord, targets: Sequence[StagedFile], directories: _Directories) -> list[str]:
    for path in record.made:
        directories.make(path)
    warnings: list[str] = []
    changing = list(zip([target for target in targets if target.changes], record.steps, strict=True))
    for target, step in changing:
        if target.content is not None:
            directory = directories[step.path]
            attributes = target.kept_attributes or Attributes.fresh(directory)
            lost = file_swap.prepare(directory, step, target.content, attributes)
            warnings += (f"{step.path}: {what} could not be kept" for what in lost)
    for target in targets:
        place, status = target.place, target.before.status if target.before else None
        exists = parent_of(place.path) in directories.descriptors  # an unchanged file's directory may not exist
        if exists and not file_swap.is_unchanged(directories[place.path], place.name, status):
            raise Changed(place.path)
    for target, step in changing:
        file_swap.swap(directories[step.path], target.place.name, step)
    if not record.simple:
        for path in {parent_of(path) for path in (*(step.path for step in record.steps), *record.made)}:
            os.fsync(directories.descriptors[path])
    return warnings


def _take_back(
    record: CommitRecord, directories: Mapping[str, int], new_directories: Sequence[str], journal: Journal
) -> tuple[str, ...]:
    """Roll everything back; returns files that stay because somebody else wrote them."""
    untouched_files = []
    try:
        for step in reversed(record.steps):
            directory = directories.get(parent_of(step.path))
            if directory is None:
                moved = parent_of(step.path) not in record.made  # else its directory was not made yet
            else:
                moved = not file_swap.take_back(directory, native_name(step.path), step)
            if moved:
                untouched_files.append(step.path)
        _remove_empty(tuple(reversed(new_directories)), directories)
        journal.end(TAKEN_BACK)
    except OSError as error:
        raise WorkspaceError(
            "PATCH_ROLLBACK_FAILED",
            f"what was written could not be taken back: {error.strerror}",
            hint="put that right; the next change tries again first",
            details={"recovery_backups": [f"{parent_of(step.path)}/{step.hidden}" for step in record.steps]},
        ) from error
    return tuple(untouched_files)


def _clear(record: CommitRecord, directories: Mapping[str, int], journal: Journal) -> None:
    """The change is committed: remove the hidden files."""
    for step in record.steps:
        if (directory := directories.get(parent_of(step.path))) is not None:
            file_swap.clear(directory, step)
    _remove_empty(record.emptied, directories)
    journal.end(DONE)


def _remove_empty(paths: Sequence[str], directories: Mapping[str, int]) -> None:
    for path in paths:
        if (parent := directories.get(parent_of(path))) is not None:
            with suppress(OSError):  # it is not empty, or gone
                os.rmdir(native_name(path), dir_fd=parent)


def _open_known(tree: Tree, paths: Iterable[str], stack: ExitStack) -> dict[str, int]:
    """Descriptors of these directories, if they still lie at their paths, with no link on the way."""
    descriptors: dict[str, int] = {}
    for directory in {*paths}:
        path = f"{directory}/{_hidden_name()}".removeprefix("./")
        with suppress(WorkspaceError):
            place = stack.enter_context(tree.locate(path))
            if not place.missing and place.path == path:
                descriptors[directory] = place.parent
    return descriptors


def _step(target: StagedFile) -> FileStep:
    before = target.before
    return FileStep(
        path=target.path,
        hidden=_hidden_name(),
        before=before.revision if before else None,
        after=target.revision,
        inode=before.status.st_ino if before else None,
    )


def _hidden_name() -> str:
    return HIDDEN + secrets.token_hex(16)


def _as_workspace_error(error: Changed | OSError) -> WorkspaceError:
    if isinstance(error, Changed):
        return conflict(error.path)
    return WorkspaceError(
        "PATCH_FAILED",
        f"the files can't be written: {error.strerror}; nothing was",
        hint="see to the space on the disk, and to the permissions of the workspace",
    )


def _ancestors(path: str) -> Iterator[str]:
    """All directories above a path, the innermost first; the root is the last."""
    while path != ".":
        path = parent_of(path)
        yield path
