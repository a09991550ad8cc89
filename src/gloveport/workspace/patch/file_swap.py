"""Replaces one file, by descriptor of its directory: the new one is made ready, swapped in, taken back or cleared away.

The new content lies beside its place under a name that nobody can guess. A name that changes is exchanged with it, so
that a reader finds the old file or the new one at each moment; what was there is then the hidden one, and is looked at:
was it not what the change was made for, the exchange is taken back. A new name is a second link to the hidden file, so
that it never replaces another's; a name that goes is moved to the hidden one.

Both are one system call on most file systems. Network file systems know neither; there, hard links do the same in
several steps, at none of which a name that is to stay is absent. ``_settle`` ends what was interrupted between them.
``take_back`` and ``clear`` ask the files how far it came. They may be interrupted and run again at each point.

What a file has besides its content is kept: mode, owner, extended attributes, ACLs. Never kept are the marks that give
a program more rights than who runs it has: they were given to the old content.
"""

import errno
import os
import stat
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from gloveport.atomic_file import EXCHANGE, NOREPLACE, rename
from gloveport.openat2 import closing
from gloveport.patch_text.text import revision
from gloveport.workspace.files.descriptors import READ, read_all, write_all

MAX_BYTES: Final = 16 << 20
"""What a file may hold to be changed. What is more is somebody else's."""

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NOTHING_THERE: Final = {errno.ENOENT, errno.ENAMETOOLONG}
_THIRD: Final = "-"
"""What is behind the hidden name while two are exchanged by links."""

_identity: Final = attrgetter("st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")
PERMISSIONS: Final = 0o777
_FRESH: Final = 0o644
_OF_THE_CONTENT: Final = frozenset({"security.capability", "security.ima", "security.evm"})
"""Rights that a program has, and signatures of what a file held."""

_Bytes: TypeAlias = Annotated[
    bytes,
    BeforeValidator(lambda value: b64decode(value) if isinstance(value, str) else value),
    PlainSerializer(lambda value: b64encode(value).decode()),
]


class Attributes(BaseModel):
    """What a file is given when it is written.

    Attributes:
        mode: Permissions.
        owner: User and group; None: whoever writes it.
        extended: All extended attributes; None: those that its directory gives it.
    """

    model_config = ConfigDict(frozen=True)

    mode: int = _FRESH
    owner: tuple[int, int] | None = None
    extended: Mapping[str, _Bytes] | None = None

    @classmethod
    def of(cls, descriptor: int, status: os.stat_result) -> "Attributes":
        """Those of an open file."""
        extended: dict[str, bytes] = {}
        with suppress(OSError):  # the file system has none
            for name in os.listxattr(descriptor):
                with suppress(OSError):  # gone meanwhile, or not for us to read
                    extended[name] = os.getxattr(descriptor, name)
        owner = (status.st_uid, status.st_gid)
        return cls(mode=stat.S_IMODE(status.st_mode), owner=owner, extended=extended)

    @classmethod
    def fresh(cls, directory: int) -> "Attributes":
        """Of a new file: root, who works for others, gives it to the owner of its directory."""
        if os.geteuid() != 0:
            return cls()
        status = os.fstat(directory)
        return cls(owner=(status.st_uid, status.st_gid))

    def give(self, descriptor: int) -> list[str]:
        """Give it to an open file. Nobody else may read the file before: its permissions come last.

        Returns:
            What could not be kept, in words.
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
        wanted = self.extended
        if wanted is None:
            return
        try:
            inherited = os.listxattr(descriptor)
        except OSError:
            inherited = []
        for name in {*inherited} - wanted.keys():
            with suppress(OSError):  # security.*, which the system gives by its own rules
                os.removexattr(descriptor, name)
        for name in wanted.keys() - _OF_THE_CONTENT:
            try:
                if name not in inherited or os.getxattr(descriptor, name) != wanted[name]:
                    os.setxattr(descriptor, name, wanted[name])
            except OSError:
                yield f"the extended attribute {name}"
        for name in wanted.keys() & _OF_THE_CONTENT:
            yield f"the extended attribute {name}"


class FileStep(BaseModel):
    """What happens to one name.

    Attributes:
        path: Of the file, as ``Tree`` spells it.
        hidden: The name beside it under which content waits, old or new.
        before: Revision of what is there; None where nothing is.
        after: Revision of what will be there; None where nothing will.
        inode: Of what is there.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    hidden: str
    before: str | None
    after: str | None
    inode: int | None


@dataclass(frozen=True, slots=True)
class Changed(Exception):  # noqa: N818 - a fact about a file, told on as PATCH_CONFLICT
    """Somebody else changed what a step was made for."""

    path: str


def prepare(directory: int, step: FileStep, content: bytes, attributes: Attributes) -> list[str]:
    """Write the new content under the hidden name, on the disk.

    Returns:
        What of the attributes could not be kept, in words.

    Raises:
        OSError: It can't be written.
    """
    with closing(os.open(step.hidden, _CREATE, 0o600, dir_fd=directory)) as descriptor:
        write_all(descriptor, content)
        lost = attributes.give(descriptor)
        os.fsync(descriptor)
    return lost


def swap(directory: int, name: str, step: FileStep) -> None:
    """Put the new file in its place.

    Raises:
        Changed: What is, or was, there is not what it was; ``take_back`` puts that right.
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
    """Let the name mean what it meant before the step, if nobody changed it since; and clear away.

    Returns:
        Whether it does. If not, what somebody else put there stays.

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
            os.unlink(name, dir_fd=directory)
        else:
            restored = _status(directory, name) is None
    elif there is None and (step.after is None or hidden.st_ino == step.inode):
        _move(directory, step.hidden, name)
        return True
    elif step.after is None:
        restored = is_ours
    elif _revision(directory, name) == step.after != _revision(directory, step.hidden):
        _exchange(directory, step.hidden, name)
        restored = True
    else:
        restored = hidden.st_ino != step.inode
    clear(directory, step)
    return restored


def clear(directory: int, step: FileStep) -> None:
    """Remove what lies under the hidden name."""
    _settle(directory, step.hidden)
    with suppress(FileNotFoundError, IsADirectoryError):  # a directory is not from us
        os.unlink(step.hidden, dir_fd=directory)


def is_unchanged(directory: int, name: str, before: os.stat_result | None) -> bool:
    """Whether a name still means the very file, as far as its status tells."""
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
    """Of a regular file of bounded size that we may read; None of all else."""
    found = _status(directory, name)
    if found is None or not stat.S_ISREG(found.st_mode):
        return None
    try:
        descriptor = os.open(name, READ, dir_fd=directory)
    except OSError as error:
        if error.errno not in {*_NOTHING_THERE, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO}:
            raise
        return None  # it became something else meanwhile
    with closing(descriptor):
        content = read_all(descriptor, MAX_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    return None if content is None else revision(content)


def _exchange(directory: int, hidden: str, name: str) -> None:
    """Let two names mean each other's file; at no moment ``name`` is absent. FileNotFoundError where one is."""
    if not rename(directory, hidden, name, EXCHANGE):
        _link(directory, name, hidden + _THIRD)
        os.rename(hidden, name, src_dir_fd=directory, dst_dir_fd=directory)
        os.rename(hidden + _THIRD, hidden, src_dir_fd=directory, dst_dir_fd=directory)


def _settle(directory: int, hidden: str) -> None:
    """End an exchange that was interrupted: afterwards it has happened, or has not."""
    try:
        _link(directory, hidden + _THIRD, hidden)
    except FileNotFoundError:
        return
    except FileExistsError:  # it has not: what was to come is still hidden
        pass
    os.unlink(hidden + _THIRD, dir_fd=directory)


def _move(directory: int, source: str, name: str) -> None:
    """Give a file another name. FileExistsError where that is taken, FileNotFoundError where the file is not there."""
    if not rename(directory, source, name, NOREPLACE):
        _link(directory, source, name)
        os.unlink(source, dir_fd=directory)


def _link(directory: int, source: str, name: str) -> None:
    os.link(source, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
