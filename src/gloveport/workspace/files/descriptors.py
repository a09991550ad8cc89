"""System calls on open directories and files: clone the mount of one, read all of one, tell where it lies."""

import ctypes
import os
import stat
from pathlib import Path
from typing import Final

from gloveport.openat2 import check

LIST: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""What waits for nobody: neither for a FIFO, nor for a file on which a program holds a lease; and is no terminal's."""

_OPEN_TREE = 428
_THIS_MOUNT: Final = 0x1000 | 1 | os.O_CLOEXEC  # AT_EMPTY_PATH | OPEN_TREE_CLONE

_PIECE: Final = 1 << 18

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def clone_mount(directory: int) -> int:
    """The same directory without what is mounted below it.

    Raises:
        OSError: The kernel does not let us.
    """
    return check(_libc.syscall(_OPEN_TREE, directory, b"", _THIS_MOUNT))


def path_of(descriptor: int) -> bytes:
    """Where it lies at this moment."""
    return os.readlink(b"/proc/self/fd/%d" % descriptor)  # noqa: PTH115 - a path may be no text


def let_owner_in(directory: int) -> None:
    """Let the owner of a directory look into it, which a command may have ended for all commands after it.

    Raises:
        OSError: It is not ours to change.
    """
    mode = stat.S_IMODE(os.fstat(directory).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        Path(f"/proc/self/fd/{directory}").chmod(mode | stat.S_IRWXU)


def read_all(descriptor: int, most_bytes: int) -> bytes | None:
    """All of a file from here on; None where that is more, perhaps because somebody writes to it meanwhile."""
    pieces, size = [], 0
    while piece := os.read(descriptor, _PIECE):
        size += len(piece)
        if size > most_bytes:
            return None
        pieces.append(piece)
    return b"".join(pieces)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it.

    Raises:
        OSError: There is no space, perhaps after a part of it.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
