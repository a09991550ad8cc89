"""Renames that lose nothing: two names exchange what they mean, or a name goes where no other is.

Both are one system call on most file systems. Network file systems know neither; there, hard links do the same in
several steps, at none of which a name that is to stay is absent. ``settle`` ends what was interrupted between them.
"""

import ctypes
import errno
import os
from collections.abc import Callable
from typing import Final

_NOREPLACE, _EXCHANGE = 1, 2
_UNKNOWN: Final = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}
_THIRD: Final = "-"
"""What is behind the first name while two are exchanged by links."""

_renameat2: Callable[[int, bytes, int, bytes, int], int] = ctypes.CDLL(None, use_errno=True).renameat2


def exchange(directory: int, hidden: str, name: str) -> None:
    """Let two names in a directory mean each other's file; at no moment ``name`` is absent.

    Raises:
        OSError: FileNotFoundError where one is absent.
    """
    try:
        _rename(directory, hidden, name, _EXCHANGE)
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
        os.link(name, hidden + _THIRD, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        os.rename(hidden, name, src_dir_fd=directory, dst_dir_fd=directory)
        os.rename(hidden + _THIRD, hidden, src_dir_fd=directory, dst_dir_fd=directory)


def settle(directory: int, hidden: str) -> None:
    """End an exchange that was interrupted: afterwards it has happened, or has not."""
    third = hidden + _THIRD
    try:
        os.link(third, hidden, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return
    except FileExistsError:  # it has not: what was to come is still hidden
        pass
    os.unlink(third, dir_fd=directory)


def move(directory: int, source: str, name: str) -> None:
    """Give a file another name in its directory.

    Raises:
        OSError: FileExistsError where that name is taken, FileNotFoundError where the file is not there.
    """
    try:
        _rename(directory, source, name, _NOREPLACE)
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
        os.link(source, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        os.unlink(source, dir_fd=directory)


def _rename(directory: int, source: str, name: str, flags: int) -> None:
    if _renameat2(directory, os.fsencode(source), directory, os.fsencode(name), flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
