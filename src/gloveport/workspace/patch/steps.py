"""One file's part of a commit, by descriptor of its directory: made ready, swapped in, and taken back or cleared away.

The new content lies beside its place under a name that nobody can guess. A name that changes is exchanged with it, so
that a reader finds the old file or the new one at each moment; what was there is then the hidden one, and is looked at:
was it not what the change was made for, the exchange is taken back. A new name is a second link to the hidden file, so
that it never replaces another's; a name that goes is moved to the hidden one.

``back`` and ``clear`` ask the files how far it came. They may be interrupted and run again at each point.
"""

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from pydantic import BaseModel, ConfigDict

from gloveport.workspace.patch import names
from gloveport.workspace.patch.attributes import Attributes, give

MAX_BYTES: Final = 16 << 20
"""What a file may hold to be changed. What is more is somebody else's."""

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_BLOCK: Final = 1 << 20
_NOTHING_THERE: Final = {errno.ENOENT, errno.ENAMETOOLONG}


class Step(BaseModel):
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


def prepare(directory: int, step: Step, content: bytes, attributes: Attributes) -> list[str]:
    """Write the new content under the hidden name, on the disk.

    Returns:
        What of the attributes could not be kept, in words.

    Raises:
        OSError: It can't be written.
    """
    descriptor = os.open(step.hidden, _CREATE, 0o600, dir_fd=directory)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        lost = give(descriptor, attributes)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return lost


def swap(directory: int, name: str, step: Step) -> None:
    """Put the new file in its place.

    Raises:
        Changed: What is, or was, there is not what it was; ``back`` puts that right.
        OSError: The file system refuses.
    """
    try:
        if step.before is None:
            os.link(step.hidden, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
            return
        if step.after is None:
            names.move(directory, name, step.hidden)
        else:
            names.exchange(directory, step.hidden, name)
    except (FileExistsError, FileNotFoundError) as error:
        raise Changed(step.path) from error
    found = _status(directory, step.hidden)
    if found is None or found.st_ino != step.inode or _revision(directory, step.hidden) != step.before:
        raise Changed(step.path)


def back(directory: int, name: str, step: Step) -> bool:
    """Let the name mean what it meant before the step, if nobody changed it since; and clear away.

    Returns:
        Whether it does. If not, what somebody else put there stays.

    Raises:
        OSError: The file system refuses.
    """
    names.settle(directory, step.hidden)
    hidden, there = _status(directory, step.hidden), _status(directory, name)
    if hidden is None:
        return True
    if step.before is None:
        restored = _take_away(directory, name, step, there is not None and there.st_ino == hidden.st_ino)
    elif there is None and (step.after is None or hidden.st_ino == step.inode):
        names.move(directory, step.hidden, name)
        return True
    elif step.after is None:
        restored = there is not None and there.st_ino == hidden.st_ino
    elif _revision(directory, name) == step.after != _revision(directory, step.hidden):
        names.exchange(directory, step.hidden, name)
        restored = True
    else:
        restored = hidden.st_ino != step.inode
    clear(directory, step)
    return restored


def clear(directory: int, step: Step) -> None:
    """Remove what lies under the hidden name."""
    names.settle(directory, step.hidden)
    with suppress(FileNotFoundError, IsADirectoryError):  # a directory is not from us
        os.unlink(step.hidden, dir_fd=directory)


def unchanged(directory: int, name: str, before: os.stat_result | None) -> bool:
    """Whether a name still means the very file, as far as its status tells."""
    now = _status(directory, name)
    if now is None or before is None:
        return now is before
    return (now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns) == (
        before.st_ino,
        before.st_size,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )


def _take_away(directory: int, name: str, step: Step, ours: bool) -> bool:  # noqa: FBT001 - a fact, no option
    """Remove the new name if it is still the new file."""
    if ours and _revision(directory, name) == step.after:
        os.unlink(name, dir_fd=directory)
        return True
    return _status(directory, name) is None


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
        descriptor = os.open(name, _READ, dir_fd=directory)
    except OSError as error:
        if error.errno not in {*_NOTHING_THERE, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO}:
            raise
        return None  # it became something else meanwhile
    digest, read = sha256(), 0
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        while block := os.read(descriptor, _BLOCK):
            read += len(block)
            if read > MAX_BYTES:
                return None
            digest.update(block)
    finally:
        os.close(descriptor)
    return digest.hexdigest()
