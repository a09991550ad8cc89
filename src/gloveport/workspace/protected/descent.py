"""Opens directories below a descriptor through no link, and tells a file from another in its place."""

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import Final, TypeAlias

from gloveport.openat2 import open_beneath
from gloveport.workspace.files.descriptors import LIST

_LOOK: Final = stat.S_IRUSR | stat.S_IXUSR

Mark: TypeAlias = tuple[int, int, int, int, int]
"""Device and inode of a file, its size, when it was changed last, which nobody can forge, and how many names it has."""


@contextlib.contextmanager
def descend(above: int | None, path: bytes) -> Iterator[int | None]:
    """A directory below, through no link, that its owner can look into; None where there is none."""
    descriptor = found = None
    try:
        with contextlib.suppress(OSError):
            if above is not None:
                descriptor = open_beneath(above, path or b".", LIST)
                found = descriptor if is_open(os.fstat(descriptor)) else None
        yield found
    finally:
        if descriptor is not None:
            os.close(descriptor)


def is_open(status: os.stat_result) -> bool:
    """Whether the owner of a directory can look into it: what has to be mounted in it is looked for as the owner."""
    return status.st_mode & _LOOK == _LOOK


def mark_of(status: os.stat_result) -> Mark:
    """The mark of a file, or of a directory, whose number of names counts what lies in it."""
    names = 1 if stat.S_ISDIR(status.st_mode) else status.st_nlink
    return status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns, names


def join_path(above: bytes, name: bytes) -> bytes:
    """The path of what lies in a directory; that of the root is empty."""
    return above + b"/" + name if above else name
