"""Counts what processes hold by their open descriptors and the kernel keeps no account of: locks, and epoll watches.

No limit of a process or a cgroup bounds either, so whoever has made many is looked for when the host runs short:

- Locks on files: the kernel counts them for nobody, and keeps 192 bytes of its memory for each. 16,000 open files with
  a thousand locks each are 3 GB.
- Epoll watches of runs without a cgroup: the kernel counts them for each user of the host, so one run can take all. A
  watch belongs to a file and a number together, so few descriptors make any number of them.
"""

import contextlib
import enum
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
"""A run may hold so many, in about 100 MiB of the kernel's memory; an honest one was never seen to hold a thousand."""

_MOST_WATCHES = Path("/proc/sys/fs/epoll/max_user_watches")
_WATCH_SHARES = 32
_PROBE_SIDE = 8
_MEMORY = Path("/proc/meminfo")
_MOST_DESCRIPTORS = 100_000
_LOOKS_IN_FLIGHT = 3
_CHUNK_BYTES = 1 << 16


class HeldObject(NamedTuple):
    """What descriptors hold.

    Attributes:
        is_held_by: By where the link of a descriptor leads, whether it may hold any.
        line: What the kernel writes for each in its ``fdinfo``.
        stays_in_flight: Whether many stay while their descriptor is in flight.
    """

    is_held_by: Callable[[str], bool]
    line: bytes
    stays_in_flight: bool


_EPOLL = "anon_inode:[eventpoll]"

LOCKS: Final = HeldObject(lambda target: target != _EPOLL, b"lock:", stays_in_flight=False)
"""Anything can be locked, a pipe as well. But all of epoll is one file with one list of locks, where many take too long
to make, and the kernel writes down all watches for who reads of them. Of the locks of a process none stays in flight,
and ``flock`` makes one for a file. The filter refuses others.
"""

WATCHES: Final = HeldObject(lambda target: target == _EPOLL, b"tfd:", stays_in_flight=True)


def has_many_locks(roots: Collection[int]) -> bool:
    """Whether these processes and all below them hold more than ``MOST_LOCKS``."""
    return hold_more(roots, MOST_LOCKS, LOCKS)


def has_many_watches(roots: Collection[int]) -> bool:
    """Whether these processes and all below them hold more watches than a fair share of this user's."""
    return hold_more(roots, int(_MOST_WATCHES.read_text()) // _WATCH_SHARES, WATCHES)


def are_watches_exhausted() -> bool:
    """Whether this user can make hardly any watch. A few can always be had: those that we have given back just now."""
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
    """Whether these processes and all below them hold more than so many. Who can't be looked at, or has too much to
    look at, does.

    What is in flight between sockets can't be looked at either: one descriptor may hold any number, or be a socket with
    others in flight. But it arrives soon, as a rule: who has some in flight whenever it is looked at hides them.
    """
    for _ in range(_LOOKS_IN_FLIGHT):
        finding = _look(roots, most, kind)
        if finding is not _Finding.IN_FLIGHT:
            return finding is _Finding.MANY
    return True


class _Finding(enum.Enum):
    FEW = enum.auto()
    IN_FLIGHT = enum.auto()
    MANY = enum.auto()


def _look(roots: Collection[int], most: int, kind: HeldObject) -> _Finding:
    looked_at = 0
    finding = _Finding.FEW
    for processes in iterate_generations(roots):
        held = 0
        for thread in _iterate_tables(pid for pid, _ in processes):
            try:
                for target, information in _iterate_descriptors(thread):
                    looked_at += 1
                    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                        if kind.is_held_by(target):
                            held += _count_lines(information, most, kind.line)
                        if target.startswith("socket:") and kind.stays_in_flight and _has_in_flight(information):
                            finding = _Finding.IN_FLIGHT
                    if held > most or looked_at > _MOST_DESCRIPTORS:
                        return _Finding.MANY
            except PermissionError:
                if not is_ending(thread):
                    return _Finding.MANY
    return finding


def _iterate_tables(pids: Iterable[int]) -> Iterator[int]:
    """A thread for each table of descriptors: threads need not share theirs."""
    for pid in pids:
        tables = list[int]()
        for thread in iterate_threads(pid):
            if not any(share_descriptors(thread, other) for other in tables):
                tables.append(thread)
                yield thread


def _iterate_descriptors(thread: int) -> Iterator[tuple[str, Path]]:
    """What each descriptor leads to, and its file below ``/proc``. None of a thread that has ended."""
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
        return "/"  # the kernel tells no path of more than a page


def _count_lines(path: Path, most: int, kind: bytes) -> int:
    """Lines that begin so. Read in pieces, until there are more than ``most``: there may be gigabytes."""
    lines, rest = 0, b"\n"
    with path.open("rb", buffering=0) as file:
        while lines <= most and (data := file.read(_CHUNK_BYTES)):
            lines += (rest + data).count(b"\n" + kind)
            rest = data[-len(kind) :]
    return lines


def _has_in_flight(information: Path) -> bool:
    words = information.read_text().split()
    return "scm_fds:" in words and int(words[words.index("scm_fds:") + 1]) > 0
