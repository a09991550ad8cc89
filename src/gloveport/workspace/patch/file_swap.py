"""Replaces one file, by a descriptor of its directory: prepares the new one, swaps it in, takes it back or clears up.

The new content lies beside its place under a name that nobody can guess. A changing name is exchanged with it, so that
a reader finds the old file or the new one at each moment; the old file is then the hidden one, and is checked: if it is
not the file that the change was made for, the exchange is taken back. A new name is a second link to the hidden file,
so that it never replaces another file; a deleted file is renamed to the hidden name.

Both are one system call on most file systems. Network file systems have neither; there, hard links do the same in
several steps, during which a remaining name is never absent. ``_settle`` completes or undoes interrupted steps.
``take_back`` and ``clear`` find out from the files how far the swap came. They may be interrupted at any point, and run
again.

A file's mode, owner, extended attributes and ACLs are kept. Marks that give a program more rights than its user (such
as set-user-id) are never kept: they were given to the old content.
"""

import errno
import os
import stat
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from gloveport.atomic_file import EXCHANGE, NOREPLACE, rename
from gloveport.file_descriptors import CREATE, READ, closing, write_all
from gloveport.patch_text.text import revision
from gloveport.workspace.files.descriptors import read_all

MAX_BYTES: Final = 16 << 20
"""The largest file that can be changed."""

MAX_EXTENDED_BYTES: Final = 1 << 17
"""The most bytes of a file's extended attributes: some file systems hold thousands, each of 64 KiB."""

_NOTHING_THERE: Final = {errno.ENOENT, errno.ENAMETOOLONG}
_THIRD: Final = "-"
"""Suffix of a third name, for an exchange of two names by links, and for a file that is to be removed."""

_TRIES: Final = 128
"""How often a file of somebody else is put back that came at the moment of an exchange."""

_identity: Final = attrgetter("st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")
PERMISSIONS: Final = 0o777
_FRESH: Final = 0o644
_STATUS: Final = Path("/proc/self/status")
_OF_THE_CONTENT: Final = frozenset({"security.capability", "security.ima", "security.evm"})
"""Attributes that belong to the content: rights of a program, and signatures."""

_Bytes: TypeAlias = Annotated[
    bytes,
    BeforeValidator(lambda value: b64decode(value) if isinstance(value, str) else value),
    PlainSerializer(lambda value: b64encode(value).decode()),
]


class Attributes(BaseModel):
    """The attributes that a written file gets.

    Attributes:
        mode: Permissions.
        owner: User and group; None: the writer's.
        extended: All extended attributes; None: the directory's defaults.
    """

    model_config = ConfigDict(frozen=True)

    mode: int
    owner: tuple[int, int] | None = None
    extended: Mapping[str, _Bytes] | None = None

    @classmethod
    def of(cls, descriptor: int, status: os.stat_result) -> "Attributes | None":
        """The attributes of an open file; None if the extended ones are larger than ``MAX_EXTENDED_BYTES``."""
        extended: dict[str, bytes] = {}
        size = 0
        with suppress(OSError):  # the file system has no attributes
            for name in os.listxattr(descriptor):
                with suppress(OSError):  # gone meanwhile, or unreadable for us
                    extended[name] = os.getxattr(descriptor, name)
                    size += len(extended[name])
                if size > MAX_EXTENDED_BYTES:
                    return None
        owner = (status.st_uid, status.st_gid)
        return cls(mode=stat.S_IMODE(status.st_mode), owner=owner, extended=extended)

    @classmethod
    def fresh(cls, directory: int) -> "Attributes":
        """Attributes of a new file: root, working for others, gives it to its directory's owner."""
        mode = _FRESH & ~_read_umask()
        if os.geteuid() != 0:
            return cls(mode=mode)
        status = os.fstat(directory)
        return cls(mode=mode, owner=(status.st_uid, status.st_gid))

    def give(self, descriptor: int) -> list[str]:
        """Apply them to an open file, and return what could not be kept, in words. Permissions come last, so that
        nobody else can read the file before.
        """
        lost = [*self._give_owner(descriptor), *self._give_extended(descriptor)]
        os.fchmod(descriptor, self.mode & PERMISSIONS)
        return lost

    def _give_owner(self, descriptor: int) -> Iterator[str]:
        status = os.fstat(descriptor)
        if self.owner is None or self.owner == (status.st_uid, status.st_gid):
            return
        try:
            os.fchown(descriptor, *self.owner)
        except PermissionError:
            with suppress(PermissionError):
                os.fchown(descriptor, -1, self.owner[1])
            yield "the owner"

    def _give_extended(self, descriptor: int) -> Iterator[str]:
        attributes = self.extended
        if attributes is None:
            return
        try:
            inherited = os.listxattr(descriptor)
        except OSError:
            inherited = []
        for name in {*inherited} - attributes.keys():
            with suppress(OSError):  # security.*, which the system sets by its own rules
                os.removexattr(descriptor, name)
        for name in attributes.keys() - _OF_THE_CONTENT:
            try:
                if name not in inherited or os.getxattr(descriptor, name) != attributes[name]:
                    os.setxattr(descriptor, name, attributes[name])
            except OSError:
                yield f"the extended attribute {name}"
        for name in attributes.keys() & _OF_THE_CONTENT:
            yield f"the extended attribute {name}"


def _read_umask() -> int:
    """The umask of this process. The system call could only tell it by setting another, for all threads."""
    [line] = (line for line in _STATUS.read_text().splitlines() if line.startswith("Umask:"))
    return int(line.split()[1], 8)


class FileStep(BaseModel):
    """The change of one name.

    Attributes:
        path: Path of the file, as ``Tree`` spells it.
        hidden: The hidden name beside it, of the new or old content.
        before: Revision of the present file; None if there is none.
        after: Revision of the new file; None if it is deleted.
        inode: Inode of the present file.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    hidden: str
    before: str | None
    after: str | None
    inode: int | None


@dataclass(frozen=True, slots=True)
class Changed(Exception):  # noqa: N818 - a fact about a file, told on as PATCH_CONFLICT
    """Somebody else has changed the file of a step."""

    path: str


def prepare(directory: int, step: FileStep, content: bytes, attributes: Attributes) -> list[str]:
    """Write the new content under the hidden name, and sync it; return what of the attributes could not be kept, in
    words. Raises OSError if it can't be written.
    """
    with closing(os.open(step.hidden, CREATE, 0o600, dir_fd=directory)) as descriptor:
        write_all(descriptor, content)
        lost = attributes.give(descriptor)
        os.fsync(descriptor)
    return lost


def swap(directory: int, name: str, step: FileStep) -> None:
    """Put the new file in its place.

    Raises:
        Changed: Another file is, or was, there; ``take_back`` restores it.
        OSError: The file system refuses.
    """
    try:
        if step.before is None:
            _link(directory, step.hidden, name)
            return
        if step.after is None:
            _move(directory, name, step.hidden)
        else:
            _exchange(directory, step.hidden, name)
    except (FileExistsError, FileNotFoundError) as error:
        raise Changed(step.path) from error
    found = _status(directory, step.hidden)
    if found is None or found.st_ino != step.inode or _revision(directory, step.hidden) != step.before:
        raise Changed(step.path)


def take_back(directory: int, name: str, step: FileStep) -> bool:
    """Restore the name's file from before the step, if nobody has changed it since; and clear up. Return whether it was
    restored. If not, somebody else's file stays.

    Raises:
        OSError: The file system refuses.
    """
    _settle(directory, step.hidden)
    hidden, there = _status(directory, step.hidden), _status(directory, name)
    if hidden is None:
        return True
    is_ours = there is not None and there.st_ino == hidden.st_ino
    if step.before is None:
        restored = is_ours and _revision(directory, name) == step.after
        if restored:
            restored = _remove(directory, name, step.hidden + _THIRD, hidden.st_ino)
        else:
            restored = _status(directory, name) is None
    elif there is None and (step.after is None or hidden.st_ino == step.inode):
        _move(directory, step.hidden, name)
        return True
    elif step.after is None:
        restored = is_ours
    elif there is not None and _revision(directory, name) == step.after != _revision(directory, step.hidden):
        restored = _exchange_back(directory, step.hidden, name, there.st_ino)
    else:
        restored = hidden.st_ino != step.inode
    clear(directory, step)
    return restored


def clear(directory: int, step: FileStep) -> None:
    """Remove the file under the hidden name."""
    _settle(directory, step.hidden)
    with suppress(FileNotFoundError, IsADirectoryError):  # we never make a directory there
        os.unlink(step.hidden, dir_fd=directory)


def is_unchanged(directory: int, name: str, before: os.stat_result | None) -> bool:
    """Whether a name still belongs to the very same file, by its status."""
    now = _status(directory, name)
    if now is None or before is None:
        return now is before
    return _identity(now) == _identity(before)


def _status(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NOTHING_THERE:
            raise
        return None


def _revision(directory: int, name: str) -> str | None:
    """The revision of a readable regular file of bounded size; else None."""
    found = _status(directory, name)
    if found is None or not stat.S_ISREG(found.st_mode):
        return None
    try:
        descriptor = os.open(name, READ, dir_fd=directory)
    except OSError as error:
        if error.errno not in {*_NOTHING_THERE, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO}:
            raise
        return None  # it was replaced meanwhile
    with closing(descriptor):
        content = read_all(descriptor, MAX_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    return None if content is None else revision(content)


def _exchange(directory: int, hidden: str, name: str) -> None:
    """Exchange the files of two names; ``name`` is never absent. FileNotFoundError if either is missing."""
    if not rename(directory, hidden, name, EXCHANGE):
        _link(directory, name, hidden + _THIRD)
        os.rename(hidden, name, src_dir_fd=directory, dst_dir_fd=directory)
        os.rename(hidden + _THIRD, hidden, src_dir_fd=directory, dst_dir_fd=directory)


def _exchange_back(directory: int, hidden: str, name: str, ours: int) -> bool:
    """Exchange the hidden file with ours, by its inode; tell whether it stays. A file that somebody else has put in
    that place meanwhile is newer than both: it goes back. FileNotFoundError if either is missing.
    """
    for number in range(_TRIES):
        old = _status(directory, hidden)
        _exchange(directory, hidden, name)
        found = _status(directory, hidden)
        if old is None or found is None or found.st_ino == ours:
            return number == 0
        ours = old.st_ino  # it has the name now, unless that happens again
    return False


def _remove(directory: int, name: str, hidden: str, ours: int) -> bool:
    """Remove a file of ours, by its inode, unless somebody else puts one in its place at this moment; tell it."""
    with suppress(FileNotFoundError):  # it is gone
        _move(directory, name, hidden)
    found = _status(directory, hidden)
    if found is None or found.st_ino == ours:
        return True
    with suppress(FileExistsError):  # there is an even newer one
        _move(directory, hidden, name)
    return False


def _settle(directory: int, hidden: str) -> None:
    """Complete or undo an interrupted exchange."""
    try:
        _link(directory, hidden + _THIRD, hidden)
    except FileNotFoundError:
        return
    except FileExistsError:  # it has not happened: the new file is still hidden
        pass
    os.unlink(hidden + _THIRD, dir_fd=directory)


def _move(directory: int, source: str, name: str) -> None:
    """Rename a file. FileExistsError if the new name is taken, FileNotFoundError if the file is missing."""
    if not rename(directory, source, name, NOREPLACE):
        _link(directory, source, name)
        os.unlink(source, dir_fd=directory)


def _link(directory: int, source: str, name: str) -> None:
    os.link(source, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
