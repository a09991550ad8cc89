"""Lets programs watch files (``inotify``) of their workspace and their own directories, and no others.

A watch lies on a file of the kernel's, wherever that is mounted: on a shared file or device it would tell who on the
host uses it and when, and slow each use. The system call filter can't tell where a path leads. So it has the kernel ask
us (``SECCOMP_RET_USER_NOTIF``): we open what the program names, in its own view of files, look where that lies, and add
the watch to the program's instance ourselves. What the program writes to its memory meanwhile changes nothing.

Watches and instances are counted by the kernel for each sandbox: its user namespace has bounds of its own.

All of it happens in threads, one for each sandbox that watches anything, one after the other and slowly: programs may
ask without end.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import select
import stat
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Final

from gloveport.model import OUT, SCRATCH
from gloveport.openat2 import IN_ROOT, NO_MAGICLINKS, check, closing, open_beneath

_MOST_OF_HOST: Final = 32
"""One part of so many of what the host gives a user is a sandbox's: an ordinary user shares it with its sandboxes."""

_LEAST_INSTANCES: Final = 4

_NOTIFICATION: Final = struct.Struct("=QIIiIQ6Q")  # struct seccomp_notif: id, thread, flags, call, …, six arguments
_ANSWER: Final = struct.Struct("=QqiI")  # struct seccomp_notif_resp: id, value, error, flags
_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102  # SECCOMP_IOCTL_NOTIF_: RECV, SEND, ID_VALID
_SETGROUPS, _SETFSUID, _SETFSGID, _PIDFD_GETFD = 116, 122, 123, 438  # of x86-64, as the filter
_PATH_BYTES: Final = 4096
_OCTAL: Final = re.compile(rb"\\([0-3][0-7]{2})")  # how the kernel writes blanks in a path

_IN_ACCESS, _IN_CLOSE_NOWRITE, _IN_OPEN, _IN_ALL_EVENTS = 0x1, 0x10, 0x20, 0xFFF
_IN_ONLYDIR, _IN_DONT_FOLLOW = 0x100_0000, 0x200_0000
_READS: Final = _IN_ACCESS | _IN_CLOSE_NOWRITE | _IN_OPEN
"""Events that tell who looks at a file. Watchers ask for them as well, and need none of them."""

_REST: Final = 3
"""After each answer everybody rests for so many times as long as it took."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_turn = threading.Lock()


def read_bounds() -> dict[str, int]:
    """How many instances and watches a sandbox may have, by the names that the kernel has for its bounds."""

    def read(name: str) -> int:
        return int(Path(f"/proc/sys/fs/inotify/{name}").read_text("ascii"))

    return {
        "instances": max(_LEAST_INSTANCES, read("max_user_instances") // _MOST_OF_HOST),
        "watches": read("max_user_watches") // _MOST_OF_HOST,
    }


@contextlib.contextmanager
def serve(listener: FileIO, directories: Sequence[str], uid: int | None) -> Iterator[None]:
    """Answer what the programs of one sandbox ask, until the context ends.

    Args:
        listener: Of its filter. It is closed when nothing is answered any more.
        directories: Where they may watch besides their own, as they name them.
        uid: The host's uid of the programs, where that is not ours.
    """
    supervisor = _Supervisor(listener, (*directories, SCRATCH, OUT), uid)
    _dispatcher.add(supervisor)
    try:
        yield
    finally:
        _dispatcher.remove(supervisor)


@dataclass(eq=False)
class _Supervisor:
    """Answers for one sandbox."""

    listener: FileIO
    directories: Sequence[str]
    uid: int | None
    ended: bool = False
    _mounts: frozenset[int] | None = None
    """Numbers of the mounts where programs may watch. None of them can be changed from inside."""

    def run(self) -> None:
        """Answer until the sandbox is dead or not served any more."""
        with self.listener:
            poll = select.poll()
            poll.register(self.listener, select.POLLIN)
            with contextlib.suppress(OSError):  # nobody is there any more
                self._become_program()
                while not self.ended and poll.poll()[0][1] & select.POLLIN:
                    self._answer()

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

    def _answer(self) -> None:
        """Answer the next question. Waits for it where whoever has asked is dead by now. Raises OSError at the end."""
        received = bytearray(_NOTIFICATION.size)
        with contextlib.suppress(FileNotFoundError):  # whoever has asked died just now, or all have
            fcntl.ioctl(self.listener, _RECEIVE, received)
        if not any(received):
            return
        with _turn:
            started = time.monotonic()
            number, thread, _, _, _, _, instance, path, mask, *_ = _NOTIFICATION.unpack(received)
            try:
                value, error = self._add_watch(number, thread, instance & 0xFFFF_FFFF, path, mask & 0xFFFF_FFFF), 0
            except OSError as failure:
                value, error = 0, -(failure.errno or errno.EACCES)
            with contextlib.suppress(FileNotFoundError):  # whoever has asked is dead
                fcntl.ioctl(self.listener, _SEND, _ANSWER.pack(number, value, error, 0))
            time.sleep(_REST * (time.monotonic() - started))

    def _add_watch(self, number: int, thread: int, instance: int, address: int, mask: int) -> int:
        """Add a watch as the program has asked for it. Its number there. Raises OSError."""
        events = mask & ~(_READS | _IN_ONLYDIR | _IN_DONT_FOLLOW)
        if not events & _IN_ALL_EVENTS:
            raise OSError(errno.EINVAL, "nothing of that is told")
        place = Path("/proc", str(thread))
        path = _read_path(place, address)
        if not path.startswith(b"/"):
            path = os.fsencode((place / "cwd").readlink()) + b"/" + path
        with (
            closing(os.open(place / "root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as root,
            closing(_take_descriptor(_find_process(place), instance)) as taken,
        ):
            if str(Path("/proc/self/fd", str(taken)).readlink()) != "anon_inode:inotify":
                raise OSError(errno.EINVAL, "no inotify instance")
            mounts = self._mounts or _find_mounts(place, self.directories)
            fcntl.ioctl(self.listener, _IS_VALID, struct.pack("=Q", number))  # all of it is of the process that asks
            self._mounts = mounts
            flags = os.O_PATH | os.O_CLOEXEC
            flags |= os.O_NOFOLLOW if mask & _IN_DONT_FOLLOW else 0
            flags |= os.O_DIRECTORY if mask & _IN_ONLYDIR else 0
            with closing(open_beneath(root, path, flags, IN_ROOT | NO_MAGICLINKS)) as found:
                self._check_place(found)
                watched = b"/proc/self/fd/%d" % found
                return check(_libc.inotify_add_watch(taken, watched, ctypes.c_uint32(events)))

    def _check_place(self, found: int) -> None:
        """Refuse what lies elsewhere, or is no file or directory. Raises OSError."""
        kind = stat.S_IFMT(os.fstat(found).st_mode)
        mount = _read_number(Path("/proc/self/fdinfo", str(found)), "mnt_id")
        if mount not in (self._mounts or ()) or kind not in (stat.S_IFDIR, stat.S_IFREG):
            raise OSError(errno.EACCES, "files can be watched in the workspace alone")


def _read_path(place: Path, address: int) -> bytes:
    """The path at an address of a process. Raises OSError."""
    with FileIO(str(place / "mem")) as memory:
        try:
            data = os.pread(memory.fileno(), _PATH_BYTES, address)
        except (OSError, OverflowError) as error:
            raise OSError(errno.EFAULT, "no such address") from error
    path, end, _ = data.partition(b"\0")
    if not end:
        raise OSError(errno.ENAMETOOLONG if len(data) == _PATH_BYTES else errno.EFAULT, "a path without an end")
    if not path:
        raise OSError(errno.ENOENT, "an empty path")
    return path


def _find_process(place: Path) -> int:
    return _read_number(place / "status", "Tgid")


def _take_descriptor(process: int, number: int) -> int:
    """A descriptor of another process as our own. Raises OSError."""
    with closing(os.pidfd_open(process)) as opened:
        return check(_libc.syscall(_PIDFD_GETFD, opened, number, 0))


def _find_mounts(place: Path, directories: Sequence[str]) -> frozenset[int]:
    """Numbers of the mounts at and beneath these directories of a process. Raises OSError."""
    found: set[int] = set()
    for line in (place / "mountinfo").read_bytes().splitlines():
        number, _, _, _, target, *_ = line.split(b" ")
        path = os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match[1], 8)]), target))
        if any(path == one or path.startswith(f"{one}/") for one in directories):
            found.add(int(number))
    return frozenset(found)


def _read_number(file: Path, name: str) -> int:
    """A number by its name, of a file of the kernel's. Raises OSError."""
    for line in file.read_text("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value)
    raise OSError(errno.ESRCH, f"no {name}")


@contextlib.contextmanager
def _close_without_room(listener: FileIO) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError):  # no descriptor, no watch of epoll, or no thread is to be had
        listener.close()


@dataclass
class _Dispatcher:
    """Starts a thread for a sandbox when it first asks: few ever do. One thread waits for all the others."""

    _waiting: dict[int, _Supervisor] = field(default_factory=dict)
    _epoll: select.epoll | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, supervisor: _Supervisor) -> None:
        """Begin to serve a sandbox; one that finds no room for it has no watches, and its programs are told so."""
        with self._lock, _close_without_room(supervisor.listener):
            if self._epoll is None:
                epoll = select.epoll()
                threading.Thread(target=self._wait, args=(epoll,), name="file watches", daemon=True).start()
                self._epoll = epoll
            number = supervisor.listener.fileno()
            self._epoll.register(number, select.EPOLLIN | select.EPOLLONESHOT)
            self._waiting[number] = supervisor

    def remove(self, supervisor: _Supervisor) -> None:
        """Serve it no more."""
        supervisor.ended = True
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
                    threading.Thread(target=supervisor.run, name="file watches of a sandbox", daemon=True).start()


_dispatcher: Final = _Dispatcher()
