"""Answers system calls of programs that the seccomp filter can't judge, since it sees no path and no kind of socket.

The filter has the kernel ask us (``SECCOMP_RET_USER_NOTIF``), in sandboxes that write to a workspace: for watches of
files (``file_watches``) and connections of sockets (``socket_connections``). We make allowed calls in the program's
place.

This happens in threads, one for each sandbox that makes such calls, one call after the other and slowly: programs may
make calls without end.
"""

import contextlib
import ctypes
import errno
import fcntl
import select
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from io import FileIO
from typing import Final

from msgspec import Struct, field

from gloveport.model import OUT, SCRATCH
from gloveport.openat2 import check
from gloveport.sandbox.run.calling_process import CallingProcess
from gloveport.sandbox.run.file_watches import add_watch
from gloveport.sandbox.run.socket_connections import Connection, prepare_connection

_NOTIFICATION: Final = struct.Struct("=QIIiIQ6Q")  # struct seccomp_notif: id, thread, flags, call, …, six arguments
_ANSWER: Final = struct.Struct("=QqiI")  # struct seccomp_notif_resp: id, value, error, flags
_RECEIVE, _SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_: RECV, SEND
_SETRESUID, _SETRESGID, _SETGROUPS, _SETFSUID, _SETFSGID = 117, 119, 116, 122, 123  # of x86-64, as the filter
_CONNECT: Final = 42
_OWN_DIRECTORIES: Final = (SCRATCH, OUT)
_SOCKET_DIRECTORIES: Final = (*_OWN_DIRECTORIES, "/dev/shm")  # noqa: S108 - the sandbox's own

_REST: Final = 3
"""After each answer, threads rest for so many times its processor time."""

_MOST_CONNECTIONS: Final = 64
"""How many connections of one sandbox may be pending."""

_TRY_AGAIN_MILLISECONDS: Final = 10

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_turn = threading.Lock()


@contextlib.contextmanager
def serve(listener: FileIO, directories: Sequence[str], uid: int | None) -> Iterator[None]:
    """Answer the calls of one sandbox's programs, until the context ends. The ``listener`` of their filter is closed
    when no call is answered any more. They may watch files in ``directories`` (paths inside) besides their own. ``uid``
    is their uid on the host, if not ours.
    """
    supervisor = _Supervisor(listener, (*directories, *_OWN_DIRECTORIES), uid)
    _dispatcher.add(supervisor)
    try:
        yield
    finally:
        _dispatcher.remove(supervisor)


class _Supervisor(Struct, eq=False):
    """Answers the calls of one sandbox."""

    listener: FileIO
    watched: Sequence[str]
    uid: int | None
    ended: bool = False
    _mounts: dict[Sequence[str], frozenset[int]] = field(default_factory=dict)
    """Numbers of the mounts at and below some directories. Programs inside can't change these."""

    _connections: list[Connection] = field(default_factory=list)
    """Pending connections."""

    _connecting: Connection | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        """Answer until the sandbox is dead or no longer served."""
        with self.listener:
            poll = select.poll()
            poll.register(self.listener, select.POLLIN)
            with contextlib.suppress(OSError):  # all processes are gone
                self._become_program()
                while not self.ended:
                    ready = poll.poll(_TRY_AGAIN_MILLISECONDS if self._connections else None)
                    if ready and not ready[0][1] & select.POLLIN:
                        break
                    if ready:
                        self._answer()
                    self._try_again()
            for connection in self._connections:
                connection.close()

    def end(self) -> None:
        """Stop answering, and abort pending connections."""
        with self._lock:
            self.ended = True
            if self._connecting is not None:
                with contextlib.suppress(OSError):  # connected or not started: its program's processes are dead
                    self._connecting.shutdown()

    def _become_program(self) -> None:
        """Give this thread, and no other, exactly its programs' file permissions. Raises OSError. It may then be unable
        to import modules, if not everybody may read our code.
        """
        if self.uid is None:
            return
        check(_libc.syscall(_SETGROUPS, 0, None))  # raw system calls: the C library's functions apply to all threads
        for call in (_SETFSGID, _SETFSUID):
            _libc.syscall(call, self.uid)
            if _libc.syscall(call, -1) != self.uid:  # -1 changes nothing, and returns the present id
                raise OSError(errno.EPERM, "this thread can't become another user")

    @contextlib.contextmanager
    def _named_as_program(self) -> Iterator[None]:
        """Within the context, peers of our connections see the program's uid and gid, and not ours. Raises OSError."""
        if self.uid is None:
            yield
            return
        check(_libc.syscall(_SETRESGID, -1, self.uid, -1))
        try:
            check(_libc.syscall(_SETRESUID, -1, self.uid, -1))
            yield
        finally:
            check(_libc.syscall(_SETRESUID, -1, 0, -1))
            check(_libc.syscall(_SETRESGID, -1, 0, -1))
            self._become_program()

    def _answer(self) -> None:
        """Answer the next call. Waits for another if its caller is dead. Raises OSError at the end."""
        received = bytearray(_NOTIFICATION.size)
        with contextlib.suppress(FileNotFoundError):  # the caller died just now, or all processes did
            fcntl.ioctl(self.listener, _RECEIVE, received)
        if not any(received):
            return
        number, thread, _, call, _, _, first, address, third, *_ = _NOTIFICATION.unpack(received)
        process = CallingProcess(self.listener, number, thread)
        descriptor, size = first & 0xFFFF_FFFF, third & 0xFFFF_FFFF
        if call == _CONNECT:
            self._answer_connect(process, descriptor, address, size)
        else:
            self._answer_watch(process, descriptor, address, size)

    def _answer_watch(self, process: CallingProcess, instance: int, address: int, mask: int) -> None:
        with _turn:
            started = time.thread_time()
            try:
                value = add_watch(process, lambda: self._find_mounts(process, self.watched), instance, address, mask)
            except OSError as failure:
                self._send(process, failure)
            else:
                self._send(process, value)
            time.sleep(_REST * (time.thread_time() - started))

    def _answer_connect(self, process: CallingProcess, number: int, address: int, size: int) -> None:
        def mounts() -> frozenset[int]:
            return self._find_mounts(process, _SOCKET_DIRECTORIES)

        with _turn:
            started = time.thread_time()
            try:
                self._check_room()
                connection = prepare_connection(process, mounts, number, address, size)
            except OSError as failure:
                self._send(process, failure)
                connection = None
            took = time.thread_time() - started
        if connection is not None and not self._connect(connection):  # outside of the turn: it may take long
            self._connections.append(connection)
        with _turn:
            time.sleep(_REST * took)

    def _check_room(self) -> None:
        if len(self._connections) >= _MOST_CONNECTIONS:
            raise OSError(errno.EAGAIN, "too many connections wait")

    def _try_again(self) -> None:
        """Try the pending connections again. Raises OSError at the end."""
        for connection in [*self._connections]:
            try:
                connection.process.check()
            except FileNotFoundError:  # the call was interrupted, or its process is dead
                self._connections.remove(connection)
                connection.close()
                continue
            if (connection.is_ready() or connection.is_late()) and self._connect(connection):
                self._connections.remove(connection)

    def _connect(self, connection: Connection) -> bool:
        """Make a connection and answer the program; false if it has to wait. Raises OSError at the end."""
        answer: int | OSError = 0
        with self._lock:
            if self.ended:
                raise OSError(errno.ESRCH, "nobody is there any more")
            self._connecting = connection
        try:
            with self._named_as_program() if connection.local else contextlib.nullcontext():
                if not connection.connect():
                    return False
        except OSError as failure:
            answer = failure
        finally:
            with self._lock:
                self._connecting = None
        connection.close()
        self._send(connection.process, answer)
        return True

    def _send(self, process: CallingProcess, answer: int | OSError) -> None:
        """Let the call of a program return. Raises OSError at the end."""
        value, error = (0, -(answer.errno or errno.EACCES)) if isinstance(answer, OSError) else (answer, 0)
        with contextlib.suppress(FileNotFoundError):  # the caller is dead
            fcntl.ioctl(self.listener, _SEND, _ANSWER.pack(process.number, value, error, 0))

    def _find_mounts(self, process: CallingProcess, directories: Sequence[str]) -> frozenset[int]:
        if (found := self._mounts.get(directories)) is None:
            found = process.find_mounts(directories)
            process.check()
            self._mounts[directories] = found
        return found


@contextlib.contextmanager
def _close_without_room(listener: FileIO) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError):  # no descriptor, epoll watch or thread is left
        listener.close()


class _Dispatcher(Struct):
    """Starts a thread for a sandbox at its first call: few make any. One thread waits for all the others."""

    _waiting: dict[int, _Supervisor] = field(default_factory=dict)
    _epoll: select.epoll | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, supervisor: _Supervisor) -> None:
        """Begin to serve a sandbox; without room for it, its calls are refused."""
        with self._lock, _close_without_room(supervisor.listener):
            if self._epoll is None:
                epoll = select.epoll()
                threading.Thread(target=self._wait, args=(epoll,), name="supervised calls", daemon=True).start()
                self._epoll = epoll
            number = supervisor.listener.fileno()
            self._epoll.register(number, select.EPOLLIN | select.EPOLLONESHOT)
            self._waiting[number] = supervisor

    def remove(self, supervisor: _Supervisor) -> None:
        """Stop serving a sandbox."""
        supervisor.end()
        with self._lock:
            if supervisor in self._waiting.values():
                number = supervisor.listener.fileno()
                del self._waiting[number]
                if self._epoll is not None:
                    self._epoll.unregister(number)
                supervisor.listener.close()

    def _wait(self, epoll: select.epoll) -> None:
        while True:
            for number, event in epoll.poll():
                with self._lock:
                    supervisor = self._waiting.get(number)
                    if supervisor is None or not event & select.EPOLLIN:  # the sandbox is dead, and soon removed
                        continue
                    del self._waiting[number]
                    epoll.unregister(number)
                with _close_without_room(supervisor.listener):
                    threading.Thread(target=supervisor.run, name="calls of a sandbox", daemon=True).start()


_dispatcher: Final = _Dispatcher()
