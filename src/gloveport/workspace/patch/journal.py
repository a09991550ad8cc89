"""The write-ahead journal of a workspace, in a directory of the server's own: no kill ends a change halfway.

One file holds one record: what the last commit was about to do, written before it began. The letter in front of it
tells how far it came. The change of that letter to ``COMMITTED`` is the moment of the commit: before it everything is
rolled back, after it cleared up. A torn record was never acted upon. The file is never replaced, so a lock on it
excludes other processes and threads; it is overwritten, which is faster on the disk than a new file.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct
from pydantic import BaseModel, ConfigDict

from gloveport.file_descriptors import LIST, closing
from gloveport.user_directories import make_private_directory
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.patch.file_swap import FileStep

_MOST_BYTES: Final = 1 << 26
"""Many times what the steps of one change take."""

_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

State: TypeAlias = bytes
BEGUN, COMMITTED, TAKEN_BACK, DONE = b"b", b"c", b"t", b"d"


def seal(text: bytes) -> bytes:
    """A text without line breaks as a line with its checksum, which reveals a line torn by a kill or a power cut."""
    return b"%s %s\n" % (sha256(text).hexdigest().encode(), text)


def unseal(content: bytes) -> bytes | None:
    """The text of the first line, if it is complete."""
    line, ending, _ = content.partition(b"\n")
    digest, _, text = line.partition(b" ")
    return text if ending and digest == sha256(text).hexdigest().encode() else None


class CommitRecord(BaseModel):
    """One commit.

    Attributes:
        steps: The change of each name.
        made: Directories that it makes, the outermost first.
        emptied: Directories that are removed after it if empty, the innermost first.
        undo: Number of the last change that can be undone: before, and afterwards.
    """

    model_config = ConfigDict(frozen=True)

    steps: tuple[FileStep, ...]
    made: tuple[str, ...]
    emptied: tuple[str, ...]
    undo: tuple[int, int]

    @property
    def simple(self) -> bool:
        """Whether a single name changes: then the file system makes it atomic."""
        return len(self.steps) == 1 and not self.made and not self.emptied


LastCommit: TypeAlias = tuple[State, CommitRecord]
"""The state of the last commit, and its record."""


class Journal(Struct, frozen=True):
    """The journal of one workspace, locked.

    Attributes:
        directory: Its directory, which also has the undo entries.
        file: The open file of the journal itself.
    """

    directory: int
    file: int

    @classmethod
    @contextmanager
    def lock(cls, path: Path, *, waits: bool = True) -> Iterator["Journal"]:
        """Lock the journal against other writers. Makes the directory if it is missing.

        Raises:
            BlockingIOError: Somebody else writes, and ``waits`` is false.
            WorkspaceError: RUNTIME_DIR_UNWRITABLE where it can't be made, or is not ours alone.
        """
        try:
            directory, file = _open(path)
        except OSError as error:
            raise WorkspaceError(
                "RUNTIME_DIR_UNWRITABLE",
                f"{path} can't be used: {error.strerror}",
                hint="make room, or move it away, or set GLOVEPORT_STATE to a directory that this user can write",
            ) from error
        with closing(directory), closing(file):
            fcntl.flock(file, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield cls(directory, file)

    def last(self) -> LastCommit | None:
        """The last commit; None if there was none, or it never began.

        Raises:
            WorkspaceError: PATCH_ROLLBACK_FAILED, since another version has begun it, and it is not done.
        """
        content = os.pread(self.file, os.fstat(self.file).st_size, 0)
        state, text = content[:1], unseal(content[1:])
        if text is None:
            return None
        try:
            return state, CommitRecord.model_validate_json(text)
        except ValueError as error:
            if state in {DONE, TAKEN_BACK}:
                return None
            raise WorkspaceError(
                "PATCH_ROLLBACK_FAILED",
                "another version of Gloveport was interrupted while it changed files here",
                hint="start that version once, which completes or reverts the change; or move its record away: "
                + str(Path(f"/proc/self/fd/{self.file}").readlink()),
            ) from error

    def begin(self, record: CommitRecord) -> None:
        """Write the planned commit, and sync it to the disk.

        With a single name it need not be synced: a power cut may then leave a hidden file, which nobody removes, and a
        journal that is older than the tree (``undo.find_latest``).

        Raises:
            OSError: There is no space; the last record is still there.
        """
        content = memoryview(BEGUN + seal(record.model_dump_json().encode()))
        if len(content) > os.fstat(self.file).st_size:
            os.posix_fallocate(
                self.file, 0, len(content)
            )  # a full disk must not tear the last record, which undo needs
        written = 0
        while written < len(content):
            written += os.pwrite(self.file, content[written:], written)
        if not record.simple:
            os.fdatasync(self.file)

    def commit(self, record: CommitRecord) -> None:
        """Write that all names are changed. On the disk the names must change before this, and the hidden files go
        after it. With a single name nothing can be torn. But a power cut within seconds may undo an acknowledged change
        as a whole, as long as it is not on the disk.
        """
        os.pwrite(self.file, COMMITTED, 0)
        if not record.simple:
            os.fdatasync(self.file)

    def end(self, state: State) -> None:
        """Write that nothing is left to do. No sync is needed: repeating the clean-up changes nothing."""
        os.pwrite(self.file, state, 0)


def _open(path: Path) -> tuple[int, int]:
    try:
        directory = os.open(path, LIST)
    except FileNotFoundError:
        make_private_directory(path)
        directory = os.open(path, LIST)
    try:
        _demand_ours(directory, path)
        return directory, _open_file(directory)
    except BaseException:
        os.close(directory)
        raise


def _open_file(directory: int) -> int:
    file = os.open("journal", _FILE, 0o600, dir_fd=directory)
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
        os.close(file)
        raise OSError(errno.EINVAL, "what is called journal there is none")
    if not status.st_size:
        os.fsync(directory)  # its name must be on the disk before we rely on it
    return file


def _demand_ours(directory: int, path: Path) -> None:
    status = os.fstat(directory)
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise WorkspaceError(
            "RUNTIME_DIR_UNWRITABLE",
            f"{path} belongs to another user, or others may enter it",
            hint=f"chmod 700 {path}, or name another directory",
        )
