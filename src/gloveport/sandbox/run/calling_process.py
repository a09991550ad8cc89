"""A process that waits in a system call which the server answers: its memory, its descriptors, its view of files.

All of it is hostile and may change at any time. A decision reads each value once, and acts on the value that was read
or opened, never on a second read.
"""

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Final

from msgspec import Struct

from gloveport.file_descriptors import closing
from gloveport.late_pattern import late_pattern
from gloveport.openat2 import IN_ROOT, NO_MAGICLINKS, check, open_beneath

_IS_VALID: Final = 0x40082102  # SECCOMP_IOCTL_NOTIF_ID_VALID
_PIDFD_GETFD: Final = 438  # of x86-64, as the filter
_PATH_BYTES: Final = 4096
_FILE_BYTES: Final = 4096
_TRIES: Final = 16
_OCTAL: Final = late_pattern(rb"\\([0-3][0-7]{2})")  # how the kernel escapes blanks in a path

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = _libc.process_vm_readv.restype = ctypes.c_long


class _Vector(ctypes.Structure):
    """``struct iovec``."""

    _fields_ = (("base", ctypes.c_uint64), ("size", ctypes.c_uint64))


def can_supervise(process: FileIO) -> bool:
    """Whether the kernel lets us see memory and descriptors of a process; ``process`` is its descriptor."""
    try:
        os.close(check(_libc.syscall(_PIDFD_GETFD, process.fileno(), 0, 0)))
    except PermissionError:
        return False
    except OSError:  # it has no such descriptor
        pass
    return True


class CallingProcess(Struct, frozen=True):
    """One thread of a sandbox, stopped in one call.

    Attributes:
        listener: The listener of the filter that has stopped it.
        number: The kernel's number of this call.
        thread: The host's number of the thread.
    """

    listener: FileIO
    number: int
    thread: int

    def check(self) -> None:
        """Raise OSError unless it still waits: if it does, files opened by its number were its own."""
        fcntl.ioctl(self.listener, _IS_VALID, struct.pack("=Q", self.number))

    def read(self, address: int, most: int) -> bytes:
        """At most so many bytes of its memory. Raises OSError."""
        data = ctypes.create_string_buffer(most)
        ours, theirs = _Vector(ctypes.addressof(data), most), _Vector(address, most)
        read = _libc.process_vm_readv(self.thread, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
        if read < 0:
            raise OSError(errno.EFAULT, "no such address")
        return data.raw[:read]

    def read_path(self, address: int) -> bytes:
        """The path at an address. Raises OSError."""
        data = self.read(address, _PATH_BYTES)
        path, end, _ = data.partition(b"\0")
        if not end:
            raise OSError(errno.ENAMETOOLONG if len(data) == _PATH_BYTES else errno.EFAULT, "a path without an end")
        return path

    def take_descriptor(self, number: int) -> int:
        """A duplicate of one of its descriptors. Raises OSError."""
        with closing(self._open_process()) as opened:
            return check(_libc.syscall(_PIDFD_GETFD, opened, number, 0))

    def _open_process(self) -> int:
        try:
            return os.pidfd_open(self.thread)
        except OSError:  # it is not its process's first thread: EINVAL or ENOENT, by the kernel's version
            return os.pidfd_open(_read_number(f"/proc/{self.thread}/status", b"\nTgid:"))

    @contextmanager
    def open_root(self) -> "Iterator[OpenedRoot]":
        """Its root and working directory, open until the context ends. Raises OSError."""
        directory = os.fsencode(Path(f"/proc/{self.thread}/cwd").readlink())
        with closing(os.open(f"/proc/{self.thread}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as root:
            yield OpenedRoot(root, directory)

    def find_mounts(self, directories: Sequence[str]) -> frozenset[int]:
        """Numbers of the mounts at and beneath these directories, as it sees them. Raises OSError."""
        found: set[int] = set()
        for line in Path(f"/proc/{self.thread}/mountinfo").read_bytes().splitlines():
            number, _, _, _, target, *_ = line.split(b" ")
            path = os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match[1], 8)]), target))
            if any(path == one or path.startswith(f"{one}/") for one in directories):
                found.add(int(number))
        return frozenset(found)


class OpenedRoot(Struct, frozen=True):
    """Resolves the paths of a process."""

    root: int
    directory: bytes

    @contextmanager
    def open_path(self, path: bytes, flags: int = 0) -> Iterator[int]:
        """Open a path of the process, for reference only (``O_PATH``). Raises OSError."""
        if not path:
            raise OSError(errno.ENOENT, "an empty path")
        if not path.startswith(b"/"):
            path = self.directory + b"/" + path
        with closing(self._open(path, flags | os.O_PATH | os.O_CLOEXEC)) as found:
            yield found

    def _open(self, path: bytes, flags: int) -> int:
        for _ in range(_TRIES - 1):
            try:
                return open_beneath(self.root, path, flags, IN_ROOT | NO_MAGICLINKS)
            except BlockingIOError:  # something was renamed, anywhere on this host, while the kernel resolved ".."
                continue
        return open_beneath(self.root, path, flags, IN_ROOT | NO_MAGICLINKS)


def read_mount(descriptor: int) -> int:
    """The number of the mount of an open file. Raises OSError."""
    return _read_number(f"/proc/self/fdinfo/{descriptor}", b"\nmnt_id:")


def _read_number(file: str, label: bytes) -> int:
    """The number after a label in a kernel file. Raises OSError."""
    with FileIO(file) as opened:
        _, found, rest = opened.read(_FILE_BYTES).partition(label)
    if not found:
        raise OSError(errno.ESRCH, f"no {label.decode().strip()}")
    return int(rest.partition(b"\n")[0])
