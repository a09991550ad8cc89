"""Reads when files were made, and when their inodes last changed: kernel times that no program can set."""

import ctypes
import os
import struct
from typing import Final

from msgspec import Struct

from gloveport.openat2 import check

_AT_SYMLINK_NOFOLLOW: Final = 0x100
_STATX_MASK: Final = 0x7FF | 0x800  # STATX_BASIC_STATS, STATX_BTIME
_SIZE: Final = 256
_MODE: Final = struct.Struct("=28xH")
_TIMES: Final = struct.Struct("=80xqI4xqI")
_DEVICE: Final = struct.Struct("=136xII")

_libc = ctypes.CDLL(None, use_errno=True)


class Times(Struct, frozen=True):
    """When a file was made, and its inode last changed, in nanoseconds since 1970; its mode, and its device."""

    born: int
    changed: int
    mode: int
    device: tuple[int, int]


def read_times(directory: int, name: str) -> Times | None:
    """The times of a name in a directory, without following a link; None if its file system does not keep them.

    Raises:
        OSError: The name is missing, or can't be read.
    """
    buffer = ctypes.create_string_buffer(_SIZE)
    check(_libc.statx(directory, os.fsencode(name), _AT_SYMLINK_NOFOLLOW, _STATX_MASK, buffer))
    (mask,) = struct.unpack_from("=I", buffer)
    if mask & _STATX_MASK != _STATX_MASK:
        return None
    born, born_ns, changed, changed_ns = _TIMES.unpack_from(buffer)
    (mode,) = _MODE.unpack_from(buffer)
    major, minor = _DEVICE.unpack_from(buffer)
    return Times(born * 10**9 + born_ns, changed * 10**9 + changed_ns, mode, (major, minor))
