"""Opens paths below an open directory, with the kernel's own limits on how a path may resolve (``openat2``)."""

import ctypes
import os
import struct

NO_XDEV, NO_MAGICLINKS, NO_SYMLINKS, BENEATH, IN_ROOT = 0x01, 0x02, 0x04, 0x08, 0x10

_OPENAT2 = 437

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def open_beneath(directory: int, path: bytes, flags: int, resolve: int = BENEATH | NO_MAGICLINKS | NO_SYMLINKS) -> int:
    """Open a path below a directory, by default through no link.

    Raises:
        OSError: It can't be opened, or lies outside.
    """
    how = struct.pack("=QQQ", flags, 0, resolve)
    # The path is a C string: the caller has checked that it has no NUL, which would make it another path.
    return check(_libc.syscall(_OPENAT2, directory, path, how, ctypes.c_size_t(len(how))))


def check(result: int) -> int:
    """The result of a call of the C library.

    Raises:
        OSError: It is negative: the call has failed.
    """
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
