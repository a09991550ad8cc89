"""Replaces files atomically and durably, through a temporary file beside them."""

import ctypes
import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from gloveport.late_libraries import tempfile
from gloveport.late_pattern import late_pattern

NOREPLACE, EXCHANGE = 1, 2
"""Ways to rename: never over another file, or exchange the two."""

_TEMPORARY: Final = late_pattern(r"\.gloveport-[a-z0-9_]{8}(?:\.toml)?")
_WRITING_SECONDS: Final = 60.0
"""Nobody takes that long to write a file."""

_UNKNOWN: Final = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}
_renameat2: Callable[[int, bytes, int, bytes, int], int] = ctypes.CDLL(None, use_errno=True).renameat2


def rename(directory: int, source: str, name: str, flags: int) -> bool:
    """Rename within an open directory in one system call; tell whether the file system knows that call.

    Raises:
        OSError: It can't be renamed, such as FileExistsError with ``NOREPLACE``.
    """
    if _renameat2(directory, os.fsencode(source), directory, os.fsencode(name), flags) == 0:
        return True
    code = ctypes.get_errno()
    if code not in _UNKNOWN:
        raise OSError(code, os.strerror(code))
    return False


@contextmanager
def temporary_file(directory: Path, content: bytes, *, suffix: str = "") -> Iterator[Path]:
    """A file of mode 0600 that is whole on the disk. It is removed on leaving, unless it has taken another file's
    place.

    Raises:
        OSError: It can't be written.
    """
    descriptor, name = tempfile.mkstemp(dir=directory, prefix=".gloveport-", suffix=suffix)
    path = Path(name)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        yield path
    finally:
        path.unlink(missing_ok=True)


def take_place(new: Path, path: Path) -> None:
    """Move a file of the same directory to the place of another, so that it lasts.

    Raises:
        OSError: It can't be moved.
    """
    new.replace(path)
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)  # or the name leads to what was there before, after a power cut
    finally:
        os.close(descriptor)


def remove_leftovers(directory: Path) -> None:
    """Remove the temporary files of writers that were killed: tokens may be in them.

    Raises:
        OSError: The directory can't be read, or a file can't be removed.
    """
    latest = time.time() - _WRITING_SECONDS
    with os.scandir(directory) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if _TEMPORARY.fullmatch(entry.name) and entry.stat(follow_symlinks=False).st_mtime < latest:
                    Path(entry.path).unlink()


def replace_file(path: Path, content: bytes) -> None:
    """Write a file of mode 0600, in the place of what is there. Removes the leftovers beside it.

    Raises:
        OSError: It can't be written. What was there still is.
    """
    with temporary_file(path.parent, content) as new:
        take_place(new, path)
    with suppress(OSError):
        remove_leftovers(path.parent)
