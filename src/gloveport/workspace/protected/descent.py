"""Opens directories below a descriptor through no link, and marks files, so that a replaced one is noticed."""

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import Final, TypeAlias

from gloveport.file_descriptors import LIST
from gloveport.openat2 import open_beneath

_LOOK: Final = stat.S_IRUSR | stat.S_IXUSR

Mark: TypeAlias = tuple[int, int, int, int, int]
"""Device, inode and size of a file, its change time, which nobody can forge, and its number of links."""


@contextlib.contextmanager
def descend(above: int | None, path: bytes) -> Iterator[int | None]:
    """Open a directory below, through no link, that its owner can access; None if there is none."""
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
    """Whether the owner of a directory can access it: mount targets in it are resolved as the owner."""
    return status.st_mode & _LOOK == _LOOK


def mark_of(status: os.stat_result) -> Mark:
    """The mark of a file, or of a directory, whose number of links counts its subdirectories."""
    names = 1 if stat.S_ISDIR(status.st_mode) else status.st_nlink
    return status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns, names


def join_path(above: bytes, name: bytes) -> bytes:
    """The path of a name in a directory; the root's path is empty."""
    return above + b"/" + name if above else name
