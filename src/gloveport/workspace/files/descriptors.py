"""System calls on open directories and files: clone a mount, read a whole file, tell a path."""

import ctypes
import os
import stat
from pathlib import Path
from typing import Final

from gloveport.openat2 import check

_OPEN_TREE = 428
_THIS_MOUNT: Final = 0x1000 | 1 | os.O_CLOEXEC  # AT_EMPTY_PATH | OPEN_TREE_CLONE

_PIECE: Final = 1 << 18

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def clone_mount(directory: int) -> int:
    """The same directory without the mounts below it. Raises OSError if the kernel does not permit it."""
    return check(_libc.syscall(_OPEN_TREE, directory, b"", _THIS_MOUNT))


def path_of(descriptor: int) -> bytes:
    """The present path of an open file."""
    return os.readlink(b"/proc/self/fd/%d" % descriptor)  # noqa: PTH115 - a path may be no text


def let_owner_in(directory: int) -> None:
    """Give the owner of a directory access to it: a command may have removed that for all later commands.

    Raises:
        OSError: It is not ours to change.
    """
    mode = stat.S_IMODE(os.fstat(directory).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        Path(f"/proc/self/fd/{directory}").chmod(mode | stat.S_IRWXU)


def read_all(descriptor: int, most_bytes: int) -> bytes | None:
    """The rest of a file; None if that is too large, perhaps because another process writes to it."""
    pieces, size = [], 0
    while piece := os.read(descriptor, _PIECE):
        size += len(piece)
        if size > most_bytes:
            return None
        pieces.append(piece)
    return b"".join(pieces)
