"""Connects the sockets of programs that may write to a workspace, but only to sockets of their own sandbox.

A path reaches a listening socket in any network namespace: a socket of the host in a mounted directory, the workspace
or a toolchain, could be reached too, even where the mount is read-only. The system call filter sees neither the path
nor the kind of socket. So the server makes every connection in the program's place: it duplicates the program's socket
once, and reads the address once. A path is opened in the program's view of files, and must lead to a socket on a file
system that the sandbox has for itself. Abstract names and internet addresses belong to the network namespace, which the
socket brings along.

The kernel is never told to continue the program's own call: the program could change the address, and the socket behind
the number, before the kernel reads them.
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
    """A requested connection, until it is made or refused.

    Attributes:
        process: The process that waits for it.
        descriptor: Our duplicate of the program's socket.
        target: Our descriptor of the listening socket at its path, if it has one.
        address: The address, as the kernel takes it.
        local: Whether it is a Unix socket.
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
        with socket.socket(fileno=os.dup(self.descriptor)) as duplicate:
            seconds, micro = _TIMEOUT.unpack(duplicate.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEOUT.size))
        patience = seconds + micro / 1_000_000
        self.deadline = time.monotonic() + patience if patience else None

    def connect(self) -> bool:
        """Try to connect; false if it has to be tried again, since the program wants to wait. Raises OSError.

        A program that makes its socket blocking again at this very moment blocks us, but only in the thread of its own
        sandbox.
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
        """Whether the program's timeout for it has passed."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def is_ready(self) -> bool:
        """Whether another try may succeed. For a full queue we can only wait for time to pass."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLOUT)
        return self.local or bool(poll.poll(0))

    def shutdown(self) -> None:
        """Abort it, so that nobody waits for it any more."""
        with socket.socket(fileno=os.dup(self.descriptor)) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close our descriptors of it."""
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
    """Duplicate the socket of a program, its descriptor ``number``, and find the target of the connection. By path it
    may connect to sockets in ``mounts``. The target lies at ``address`` in its memory, and has ``size`` bytes, as the
    program claims.

    Raises:
        OSError: The program gets this error.
    """
    descriptor, target = process.take_descriptor(number), None
    try:
        socket_address = _read_address(process, address, size)
        process.check()
        with socket.socket(fileno=os.dup(descriptor)) as duplicate:  # raises ENOTSOCK if it is no socket
            local = duplicate.family == socket.AF_UNIX
        if local and _leads_to_path(socket_address):
            target = _open_listener(process, mounts(), socket_address[_FAMILY.size :].partition(b"\0")[0])
            socket_address = _FAMILY.pack(socket.AF_UNIX) + b"/proc/self/fd/%d\0" % target
        return Connection(process=process, descriptor=descriptor, target=target, address=socket_address, local=local)
    except BaseException:
        os.close(descriptor)
        if target is not None:
            os.close(target)
        raise


def _read_address(process: CallingProcess, address: int, size: int) -> bytes:
    if size > _MOST_BYTES:
        raise OSError(errno.EINVAL, "too long an address")
    data = process.read(address, size) if size else b""
    if len(data) != size:
        raise OSError(errno.EFAULT, "no such address")
    return data


def _leads_to_path(address: bytes) -> bool:
    """Whether this is a path, and no abstract name. Invalid addresses are left for the kernel to refuse."""
    if len(address) <= _FAMILY.size or _FAMILY.unpack_from(address)[0] != socket.AF_UNIX:
        return False
    if len(address) > _MOST_UNIX_BYTES:
        raise OSError(errno.EINVAL, "too long an address")
    return address[_FAMILY.size] != 0


def _open_listener(process: CallingProcess, allowed: frozenset[int], path: bytes) -> int:
    """Open the socket at a path of the program, for reference only. Raises OSError."""
    with process.open_root() as root:
        process.check()
        with root.open_path(path) as found:
            if read_mount(found) not in allowed:
                raise OSError(errno.EACCES, "sockets can be reached in the sandbox's own directories alone")
            if not stat.S_ISSOCK(os.fstat(found).st_mode):
                raise OSError(errno.ECONNREFUSED, "no socket")
            return os.dup(found)
