"""Connects the sockets of programs that may write to a workspace, each to what lies in its own sandbox.

A path leads to a listening socket whatever the network namespace: one of the host's that lies in a directory that is
mounted, the workspace or a toolchain, would be reached like any other, also where it is mounted read-only. The system
call filter sees neither the path nor whether a socket is one for paths. So the server makes every connection in the
program's place: of the socket that the program named, taken once, to the address that it said, read once. A path is
opened in the program's view of files, and must lead to a socket on a file system that the sandbox has for itself. Names
without a path, and addresses of the internet, are the network namespace's: the socket brings its own.

A connection is never let through for the kernel to make: what the program said, and which socket has the number, could
change before the kernel reads it.
"""

import ctypes
import errno
import fcntl
import os
import select
import socket
import stat
import struct
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from gloveport.openat2 import check
from gloveport.sandbox.run.calling_process import CallingProcess, read_mount

_FAMILY: Final = struct.Struct("=H")
_MOST_BYTES: Final = 128  # struct sockaddr_storage
_MOST_UNIX_BYTES: Final = _FAMILY.size + 108  # struct sockaddr_un
_TIMEOUT: Final = struct.Struct("=qq")  # struct timeval

_libc = ctypes.CDLL(None, use_errno=True)


class Connection(Struct, eq=False, kw_only=True):
    """One that a program has asked for, until it is made or refused.

    Attributes:
        process: Who waits for it.
        descriptor: Our own of the program's socket.
        target: Our own of the listening socket at its path, where it is one for paths.
        address: Where to connect to, for the kernel.
        local: Whether it is a socket for paths and names, not of the internet.
    """

    process: CallingProcess
    descriptor: int
    target: int | None
    address: bytes
    local: bool
    deadline: float | None = None
    _waits: bool = False

    def __post_init__(self) -> None:
        self._waits = not fcntl.fcntl(self.descriptor, fcntl.F_GETFL) & os.O_NONBLOCK
        with socket.socket(fileno=os.dup(self.descriptor)) as taken:
            seconds, micro = _TIMEOUT.unpack(taken.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEOUT.size))
        patience = seconds + micro / 1_000_000
        self.deadline = time.monotonic() + patience if patience else None

    def connect(self) -> bool:
        """Try to; false where it has to be tried again, since the program wants to wait. Raises OSError.

        Who sets its socket to wait again in this very moment has us wait, in the thread of its own sandbox.
        """
        try:
            if self._waits:
                self._connect_without_waiting()
            else:
                self._connect()
        except (BlockingIOError, InterruptedError):  # EINPROGRESS, EALREADY, EAGAIN
            if not self._waits or self.is_late():
                raise
            return False
        return True

    def is_late(self) -> bool:
        """Whether the program's patience with it is over."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def is_ready(self) -> bool:
        """Whether another try may end otherwise. For a place in a queue there is nothing to wait for but time."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLOUT)
        return self.local or bool(poll.poll(0))

    def shutdown(self) -> None:
        """Let nobody wait for it any more."""
        with socket.socket(fileno=os.dup(self.descriptor)) as taken:
            taken.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close what is our own of it."""
        os.close(self.descriptor)
        if self.target is not None:
            os.close(self.target)

    def _connect_without_waiting(self) -> None:
        flags = fcntl.fcntl(self.descriptor, fcntl.F_GETFL)
        fcntl.fcntl(self.descriptor, fcntl.F_SETFL, flags | os.O_NONBLOCK)
        try:
            self._connect()
        finally:
            fcntl.fcntl(self.descriptor, fcntl.F_SETFL, flags & ~os.O_NONBLOCK)

    def _connect(self) -> None:
        check(_libc.connect(self.descriptor, self.address, len(self.address)))


def prepare_connection(
    process: CallingProcess, mounts: Callable[[], frozenset[int]], number: int, address: int, size: int
) -> Connection:
    """Take the socket of a program, and find out where it shall be connected to.

    Args:
        process: The program.
        mounts: Numbers of the mounts where it may connect to sockets by their paths.
        number: Its descriptor of the socket.
        address: Where it has the address.
        size: How many bytes of that there are, as it says.

    Raises:
        OSError: The program gets this error.
    """
    descriptor, target = process.take_descriptor(number), None
    try:
        said = _read_address(process, address, size)
        process.check()
        with socket.socket(fileno=os.dup(descriptor)) as taken:  # raises where it is none: ENOTSOCK
            local = taken.family == socket.AF_UNIX
        if local and _leads_to_path(said):
            target = _open_listener(process, mounts(), said[_FAMILY.size :].partition(b"\0")[0])
            said = _FAMILY.pack(socket.AF_UNIX) + b"/proc/self/fd/%d\0" % target
        return Connection(process=process, descriptor=descriptor, target=target, address=said, local=local)
    except BaseException:
        os.close(descriptor)
        if target is not None:
            os.close(target)
        raise


def _read_address(process: CallingProcess, address: int, size: int) -> bytes:
    if size > _MOST_BYTES:
        raise OSError(errno.EINVAL, "too long an address")
    said = process.read(address, size) if size else b""
    if len(said) != size:
        raise OSError(errno.EFAULT, "no such address")
    return said


def _leads_to_path(address: bytes) -> bool:
    """Whether this is a path, and no name of the namespace. What is neither is left for the kernel to refuse."""
    if len(address) <= _FAMILY.size or _FAMILY.unpack_from(address)[0] != socket.AF_UNIX:
        return False
    if len(address) > _MOST_UNIX_BYTES:
        raise OSError(errno.EINVAL, "too long an address")
    return address[_FAMILY.size] != 0


def _open_listener(process: CallingProcess, allowed: frozenset[int], path: bytes) -> int:
    """The socket at a path of the program's, for reference only. Raises OSError."""
    with process.open_root() as root:
        process.check()
        with root.open_path(path) as found:
            if read_mount(found) not in allowed:
                raise OSError(errno.EACCES, "sockets can be reached in the sandbox's own directories alone")
            if not stat.S_ISSOCK(os.fstat(found).st_mode):
                raise OSError(errno.ECONNREFUSED, "no socket")
            return os.dup(found)
