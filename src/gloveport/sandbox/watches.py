"""Epoll watches of runs without a cgroup. The kernel counts them for each user of the host: one run can take all.

A watch belongs to a file and a number together, so few descriptors make any number of them, and no limit of a process
bounds it. So whoever has made many is looked for when there are no more to be had.
"""

import contextlib
import errno
import itertools
import os
import select
from collections import defaultdict
from collections.abc import Collection, Iterator
from io import FileIO
from pathlib import Path

_MOST = Path("/proc/sys/fs/epoll/max_user_watches")
_SHARES = 32
_MOST_DESCRIPTORS = 100_000
_IN_FLIGHT_SHARES = 8
_CHUNK_BYTES = 1 << 16
_PROBE_SIDE = 8


def are_exhausted() -> bool:
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


def has_many(roots: Collection[int]) -> bool:
    """Whether these processes and all below them hold more watches than a fair share of this user's."""
    return holds_more(find_family(roots), int(_MOST.read_text()) // _SHARES)


def find_family(roots: Collection[int]) -> set[int]:
    """These processes and all below them."""
    children = defaultdict[int, list[int]](list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            children[int(path.read_text().rpartition(")")[2].split()[1])].append(int(path.parent.name))
    found, waiting = set[int](), [*roots]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children[pid]
    return found


def holds_more(pids: Collection[int], most: int) -> bool:
    """Whether these processes hold more watches. Who can't be looked at, or has too much to look at, does."""
    held = 0
    try:
        for looked_at, (thread, number) in enumerate(_descriptors(pids)):
            held += _count(thread, number, most)
            if held > most or looked_at >= _MOST_DESCRIPTORS:
                return True
    except PermissionError:
        return True
    return False


def _descriptors(pids: Collection[int]) -> Iterator[tuple[Path, str]]:
    """Of each thread: they need not share theirs."""
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                for descriptor in (thread / "fd").iterdir():
                    yield thread, descriptor.name


def _count(thread: Path, number: str, most: int) -> int:
    """The watches of one descriptor. One that is in flight can't be looked at: it counts for many."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        link = str((thread / "fd" / number).readlink())
        if link == "anon_inode:[eventpoll]":
            return _count_lines(thread / "fdinfo" / number, most)
        if link.startswith("socket:"):
            words = (thread / "fdinfo" / number).read_text().split()
            in_flight = int(words[words.index("scm_fds:") + 1]) if "scm_fds:" in words else 0
            return in_flight * most // _IN_FLIGHT_SHARES
    return 0


def _count_lines(path: Path, most: int) -> int:
    """Read in pieces: there may be gigabytes."""
    lines = 0
    with path.open("rb") as file:
        while lines <= most and (data := file.read(_CHUNK_BYTES)):
            lines += data.count(b"\n")
    return lines
