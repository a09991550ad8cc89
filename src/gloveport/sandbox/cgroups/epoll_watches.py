"""Epoll watches of runs without a cgroup. The kernel counts them for each user of the host: one run can take all.

A watch belongs to a file and a number together, so few descriptors make any number of them, and no limit of a process
bounds it. So whoever has made many is looked for when there are no more to be had.
"""

import contextlib
import errno
import itertools
import os
import select
from collections.abc import Collection
from io import FileIO
from pathlib import Path

from gloveport.sandbox.cgroups import open_files
from gloveport.sandbox.cgroups.open_files import Descriptor

_MOST = Path("/proc/sys/fs/epoll/max_user_watches")
_SHARES = 32
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
    return hold_more(open_files.find_family(roots), int(_MOST.read_text()) // _SHARES)


def hold_more(pids: Collection[int], most: int) -> bool:
    """Whether these processes hold more watches: see ``open_files.hold_more``."""
    return open_files.hold_more(pids, most, _count)


def _count(descriptor: Descriptor, most: int) -> int:
    if descriptor.target != "anon_inode:[eventpoll]":
        return 0
    return open_files.count_lines(descriptor.information, most, b"tfd:")
