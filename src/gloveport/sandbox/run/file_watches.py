"""Lets programs watch files (``inotify``) of their workspace and their own directories, and no others.

A watch lies on a file of the kernel's, wherever that is mounted: on a shared file or device it would tell who on the
host uses it and when, and slow each use. The system call filter can't tell where a path leads. So we open the program's
path in its own view of files, check the mount, and add the watch to the program's instance ourselves. Later writes of
the program to its memory change nothing.

Watches and instances are counted by the kernel for each sandbox: its user namespace has bounds of its own.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gloveport.file_descriptors import closing
from gloveport.openat2 import check
from gloveport.sandbox.run.calling_process import CallingProcess, read_mount

_MOST_OF_HOST: Final = 32
"""A sandbox gets one in so many of a user's watches: an ordinary user shares them with its sandboxes."""

_LEAST_INSTANCES: Final = 4

_IN_ACCESS, _IN_CLOSE_NOWRITE, _IN_OPEN, _IN_ALL_EVENTS = 0x1, 0x10, 0x20, 0xFFF
_IN_ONLYDIR, _IN_DONT_FOLLOW = 0x100_0000, 0x200_0000
_READS: Final = _IN_ACCESS | _IN_CLOSE_NOWRITE | _IN_OPEN
"""Events that reveal reads of a file. Watchers request them too, but need none of them."""

_libc = ctypes.CDLL(None, use_errno=True)


def read_bounds() -> dict[str, int]:
    """How many instances and watches a sandbox may have, by the kernel's names for the bounds."""

    def read(name: str) -> int:
        return int(Path(f"/proc/sys/fs/inotify/{name}").read_text("ascii"))

    return {
        "instances": max(_LEAST_INSTANCES, read("max_user_instances") // _MOST_OF_HOST),
        "watches": read("max_user_watches") // _MOST_OF_HOST,
    }


def add_watch(
    process: CallingProcess, mounts: Callable[[], frozenset[int]], instance: int, address: int, mask: int
) -> int:
    """Add a watch for a program on a file of ``mounts``; return the watch's number there. ``instance`` is its
    descriptor of the inotify instance, ``address`` that of the path in its memory; ``mask`` has the events, and how to
    follow the path.

    Raises:
        OSError: The program gets this error.
    """
    events = mask & ~(_READS | _IN_ONLYDIR | _IN_DONT_FOLLOW)
    if not events & _IN_ALL_EVENTS:
        raise OSError(errno.EINVAL, "nothing of that is told")
    path = process.read_path(address)
    with process.open_root() as root, closing(process.take_descriptor(instance)) as descriptor:
        if str(Path("/proc/self/fd", str(descriptor)).readlink()) != "anon_inode:inotify":
            raise OSError(errno.EINVAL, "no inotify instance")
        allowed = mounts()
        process.check()
        flags = os.O_NOFOLLOW if mask & _IN_DONT_FOLLOW else 0
        flags |= os.O_DIRECTORY if mask & _IN_ONLYDIR else 0
        with root.open_path(path, flags) as found:
            kind = stat.S_IFMT(os.fstat(found).st_mode)
            if read_mount(found) not in allowed or kind not in (stat.S_IFDIR, stat.S_IFREG):
                raise OSError(errno.EACCES, "files can be watched in the workspace alone")
            watched = b"/proc/self/fd/%d" % found
            return check(_libc.inotify_add_watch(descriptor, watched, ctypes.c_uint32(events)))
