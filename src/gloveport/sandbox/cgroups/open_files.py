"""Counts two things that open descriptors hold and the kernel does not account for: file locks and epoll watches.

No limit of a process or a cgroup bounds either. When the host runs short, the server searches for runs with many:

- Locks on files: the kernel charges them to nobody, and keeps 192 bytes of its memory for each. 16,000 open files with
  a thousand locks each are 3 GB.
- Epoll watches of runs without a cgroup: the kernel counts them for each user of the host, so one run can take all. A
  watch belongs to a file and a number together, so few descriptors make any number of them.
"""

import contextlib
import errno
import itertools
import os
import select
from collections.abc import Callable, Collection, Iterable, Iterator
from io import FileIO
from pathlib import Path
from typing import Final, NamedTuple

from gloveport.sandbox.cgroups.process_family import is_ending, iterate_generations, iterate_threads, share_descriptors

MOST_LOCKS = 500_000
"""The most locks of one run, in about 100 MiB of kernel memory. No honest program was ever seen to hold a thousand."""

_MOST_WATCHES = Path("/proc/sys/fs/epoll/max_user_watches")
_WATCH_SHARES = 32
_PROBE_SIDE = 8
_MEMORY = Path("/proc/meminfo")
_MOST_DESCRIPTORS = 100_000
_LOOKS_IN_FLIGHT = 3
_CHUNK_BYTES = 1 << 16


class HeldObject(NamedTuple):
    """A kind of kernel object that descriptors hold.

    Attributes:
        is_held_by: Tells by the target of a descriptor's link whether it may hold any.
        line: Beginning of the line for each object in the descriptor's ``fdinfo``.
        stays_in_flight: Whether many objects can stay while their descriptor is in flight between sockets.
    """

    is_held_by: Callable[[str], bool]
    line: bytes
    stays_in_flight: bool


_EPOLL = "anon_inode:[eventpoll]"

LOCKS: Final = HeldObject(lambda target: target != _EPOLL, b"lock:", stays_in_flight=False)
"""Any file can be locked, also a pipe. Epoll descriptors are left out: they share one inode with one list of locks, on
which making many takes too long, and their ``fdinfo`` lists all watches. POSIX locks of a process do not stay in
flight, ``flock`` makes one lock for a file, and the filter refuses all others.
"""

WATCHES: Final = HeldObject(lambda target: target == _EPOLL, b"tfd:", stays_in_flight=True)


def has_many_locks(roots: Collection[int]) -> bool:
    """Whether these processes and all below them hold more than ``MOST_LOCKS``."""
    return hold_more(roots, MOST_LOCKS, LOCKS)


def has_many_watches(roots: Collection[int]) -> bool:
    """Whether these processes and all below them hold more watches than a fair share of this user's."""
    return hold_more(roots, int(_MOST_WATCHES.read_text()) // _WATCH_SHARES, WATCHES)


def are_watches_exhausted() -> bool:
    """Whether this user can make hardly any more watches. A few are always free: those that we have just released."""
    with contextlib.ExitStack() as stack:
        try:
            pollers = [stack.enter_context(select.epoll()) for _ in range(_PROBE_SIDE)]
            events = [stack.enter_context(FileIO(os.eventfd(0), "r+")) for _ in range(_PROBE_SIDE)]
            for poller, event in itertools.product(pollers, events):
                poller.register(event)
        except OSError as error:
            return error.errno == errno.ENOSPC
    return False


def read_kernel_bytes() -> int:
    """Memory of the kernel's own objects on the whole host that can't be freed."""
    words = _MEMORY.read_text().split()
    return int(words[words.index("SUnreclaim:") + 1]) * 1024


def hold_more(roots: Collection[int], most: int, kind: HeldObject) -> bool:
    """Whether these processes and all below them hold more than ``most`` objects. Also true if a process can't be
    inspected, or has too many descriptors to inspect.

    Descriptors in flight between sockets can't be inspected: one may hold any number of objects, or be a socket with
    others in flight. But normally they arrive soon: a run that has some in flight at each of several looks hides them.
    """
    for _ in range(_LOOKS_IN_FLIGHT):
        finding = _look(roots, most, kind)
        if finding is not None:
            return finding
    return True


def _look(roots: Collection[int], most: int, kind: HeldObject) -> bool | None:
    """Whether they hold more, as ``hold_more``; None if some may be in flight."""
    looked_at, has_any_in_flight = 0, False
    for processes in iterate_generations(roots):
        held_count = 0
        for thread in _iterate_tables(pid for pid, _ in processes):
            try:
                for target, information in _iterate_descriptors(thread):
                    looked_at += 1
                    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                        if kind.is_held_by(target):
                            held_count += _count_lines(information, most, kind.line)
                        if target.startswith("socket:") and kind.stays_in_flight and _has_in_flight(information):
                            has_any_in_flight = True
                    if held_count > most or looked_at > _MOST_DESCRIPTORS:
                        return True
            except PermissionError:
                if not is_ending(thread):
                    return True
    return None if has_any_in_flight else False


def _iterate_tables(pids: Iterable[int]) -> Iterator[int]:
    """One thread for each table of descriptors: the threads of a process need not share one."""
    for pid in pids:
        tables = list[int]()
        for thread in iterate_threads(pid):
            if not any(share_descriptors(thread, other) for other in tables):
                tables.append(thread)
                yield thread


def _iterate_descriptors(thread: int) -> Iterator[tuple[str, Path]]:
    """The target and the ``fdinfo`` file of each descriptor; nothing for a thread that has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for link in Path(f"/proc/{thread}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                yield _read_target(link), link.parents[1] / "fdinfo" / link.name


def _read_target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return "/"  # the kernel reports no path longer than a page


def _count_lines(path: Path, most: int, kind: bytes) -> int:
    """The number of lines that begin with ``kind``. Reads in pieces up to ``most``: a file may have gigabytes."""
    lines, rest = 0, b"\n"
    with path.open("rb", buffering=0) as file:
        while lines <= most and (data := file.read(_CHUNK_BYTES)):
            lines += (rest + data).count(b"\n" + kind)
            rest = data[-len(kind) :]
    return lines


def _has_in_flight(information: Path) -> bool:
    words = information.read_text().split()
    return "scm_fds:" in words and int(words[words.index("scm_fds:") + 1]) > 0
