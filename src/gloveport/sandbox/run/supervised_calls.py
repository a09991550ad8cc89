"""Answers system calls of programs that their filter can't judge, since a filter sees no path and no kind of socket.

The filter has the kernel ask us (``SECCOMP_RET_USER_NOTIF``), in sandboxes that write to a workspace: for watches of
files (``file_watches``) and connections of sockets (``socket_connections``). What is allowed we do in the program's
place.

All of it happens in threads, one for each sandbox that asks for anything, one question after the other and slowly:
programs may ask without end.
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
"""After each answer everybody rests for so many times as long as it took of a processor."""

_MOST_CONNECTIONS: Final = 64
"""So many connections of one sandbox may wait to be made."""

_TRY_AGAIN_MILLISECONDS: Final = 10

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_turn = threading.Lock()


@contextlib.contextmanager
def serve(listener: FileIO, directories: Sequence[str], uid: int | None) -> Iterator[None]:
    """Answer what the programs of one sandbox ask, until the context ends.

    Args:
        listener: Of its filter. It is closed when nothing is answered any more.
        directories: Where they may watch files besides their own, as they name them.
        uid: The host's uid of the programs, where that is not ours.
    """
    supervisor = _Supervisor(listener, (*directories, *_OWN_DIRECTORIES), uid)
    _dispatcher.add(supervisor)
    try:
        yield
    finally:
        _dispatcher.remove(supervisor)


class _Supervisor(Struct, eq=False):
    """Answers for one sandbox."""

    listener: FileIO
    watched: Sequence[str]
    uid: int | None
    ended: bool = False
    _mounts: dict[Sequence[str], frozenset[int]] = field(default_factory=dict)
    """Numbers of the mounts at and below some directories. None of them can be changed from inside."""

    _connections: list[Connection] = field(default_factory=list)
    """Those that wait to be made."""

    _connecting: Connection | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        """Answer until the sandbox is dead or not served any more."""
        with self.listener:
            poll = select.poll()
            poll.register(self.listener, select.POLLIN)
            with contextlib.suppress(OSError):  # nobody is there any more
                self._become_program()
                while not self.ended:
                    asked = poll.poll(_TRY_AGAIN_MILLISECONDS if self._connections else None)
                    if asked and not asked[0][1] & select.POLLIN:
                        break
                    if asked:
                        self._answer()
                    self._try_again()
            for connection in self._connections:
                connection.close()

    def end(self) -> None:
        """Answer no more, and wait for no connection."""
        with self._lock:
            self.ended = True
            if self._connecting is not None:
                with contextlib.suppress(OSError):  # it is made, or was not begun: all who could take it are dead
                    self._connecting.shutdown()

    def _become_program(self) -> None:
        """Let this thread, and no other, open what its programs may open, and nothing else. Raises OSError.

        So it can import nothing any more, where our own code is not everybody's to read.
        """
        if self.uid is None:
            return
        check(_libc.syscall(_SETGROUPS, 0, None))  # the system calls: the C library's functions are for all threads
        for call in (_SETFSGID, _SETFSUID):
            _libc.syscall(call, self.uid)
            if _libc.syscall(call, -1) != self.uid:  # which changes nothing, and tells what is in force
                raise OSError(errno.EPERM, "this thread can't become another user")

    @contextlib.contextmanager
    def _named_as_program(self) -> Iterator[None]:
        """Whom we connect to meanwhile is told the program's uid and gid, and not ours. Raises OSError."""
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
        """Answer the next question. Waits for it where whoever has asked is dead by now. Raises OSError at the end."""
        received = bytearray(_NOTIFICATION.size)
        with contextlib.suppress(FileNotFoundError):  # whoever has asked died just now, or all have
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
        if connection is not None and not self._connect(connection):  # outside of the turn: it may take as it likes
            self._connections.append(connection)
        with _turn:
            time.sleep(_REST * took)

    def _check_room(self) -> None:
        if len(self._connections) >= _MOST_CONNECTIONS:
            raise OSError(errno.EAGAIN, "too many connections wait")

    def _try_again(self) -> None:
        """Try to make the connections that wait. Raises OSError at the end."""
        for connection in [*self._connections]:
            try:
                connection.process.check()
            except FileNotFoundError:  # it was interrupted, or is dead
                self._connections.remove(connection)
                connection.close()
                continue
            if (connection.is_ready() or connection.is_late()) and self._connect(connection):
                self._connections.remove(connection)

    def _connect(self, connection: Connection) -> bool:
        """Make a connection and tell the program; false where it has to wait. Raises OSError at the end."""
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
        """Let the call of a program come back. Raises OSError at the end."""
        value, error = (0, -(answer.errno or errno.EACCES)) if isinstance(answer, OSError) else (answer, 0)
        with contextlib.suppress(FileNotFoundError):  # whoever has asked is dead
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
    except (OSError, RuntimeError):  # no descriptor, no watch of epoll, or no thread is to be had
        listener.close()


class _Dispatcher(Struct):
    """Starts a thread for a sandbox when it first asks: few ever do. One thread waits for all the others."""

    _waiting: dict[int, _Supervisor] = field(default_factory=dict)
    _epoll: select.epoll | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, supervisor: _Supervisor) -> None:
        """Begin to serve a sandbox; one that finds no room for it is refused what it asks."""
        with self._lock, _close_without_room(supervisor.listener):
            if self._epoll is None:
                epoll = select.epoll()
                threading.Thread(target=self._wait, args=(epoll,), name="supervised calls", daemon=True).start()
                self._epoll = epoll
            number = supervisor.listener.fileno()
            self._epoll.register(number, select.EPOLLIN | select.EPOLLONESHOT)
            self._waiting[number] = supervisor

    def remove(self, supervisor: _Supervisor) -> None:
        """Serve it no more."""
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
                    if supervisor is None or not event & select.EPOLLIN:  # it is dead, and soon removed
                        continue
                    del self._waiting[number]
                    epoll.unregister(number)
                with _close_without_room(supervisor.listener):
                    threading.Thread(target=supervisor.run, name="calls of a sandbox", daemon=True).start()


_dispatcher: Final = _Dispatcher()
