"""Measures memory of one run that no cgroup bounds: kernel objects, and without a cgroup all memory.

Memory that a cgroup counts is bounded by ``memory_bytes`` already. But half a gigabyte of small kernel objects takes
seconds to free, under locks of the host. No honest program was found that makes the kernel hold a tenth of its memory.

A TCP connection that waits to be accepted belongs to no cgroup, and neither do its buffers. Only its network namespace
counts it. Locks on files are counted nowhere and, without cgroups, neither are epoll watches nor the total memory of a
run: these are searched for when the host runs low, and now and then.
"""

import concurrent.futures
import contextlib
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from functools import partial
from io import FileIO
from pathlib import Path

import anyio
from msgspec import Struct, field

from gloveport.late_libraries import to_thread
from gloveport.model import MIB
from gloveport.sandbox.cgroups import open_files, process_memory
from gloveport.sandbox.cgroups.cgroup import Cgroup
from gloveport.sandbox.cgroups.process_family import iterate_threads

_SHARE = 1 / 4
_LEAST_BYTES = 32 * MIB
"""The kernel holds 10 MiB for 60 processes."""

_SOCKET_BYTES = 256 * 1024  # the most that lies in one TCP socket: the buffers' sizes are set to that
_RECLAIM_SECONDS = 2.0  # of processor time, of which a busy host gives little at once
_LONGEST_RECLAIM_SECONDS = 8.0
_RECLAIM_SHARE = 1 / 20  # of a processor
_LEAST_PAUSE_SECONDS = 4.0  # to start a process takes the server time that is not in the process's own
_LONGEST_PAUSE_SECONDS = 16.0  # meanwhile the program's kernel memory is not looked at
_LEFT_BYTES = 32 * MIB
_SEARCH_SECONDS = 1.0
_LOOK_SECONDS = 0.25  # without a cgroup: a program fills half a gigabyte in that time
_GROWN_BYTES = 128 * MIB  # growth of the whole host's kernel memory before locks are searched for
_LOCKS_SECONDS = 8.0  # without growth: others may free as much meanwhile
_SUM_SECONDS = 4.0
_TAKEN_SHARE = 1 / 4  # of a run's memory limit: after such a fall of the host's free memory it is summed up
_FILE_BYTES = 4096
_PROCESS_CPU_CLOCK = 2  # linux/posix-timers.h: the low bits of the clock of another process; the others are ~pid
_searches = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="search")
# A search of one run may take long; others must not profit from that.
_sums = concurrent.futures.ThreadPoolExecutor(max_workers=4, thread_name_prefix="sum")


class KernelMemory(Struct, kw_only=True):
    """The kernel memory of one run.

    Attributes:
        memory_bytes: The limit of the run's memory.
        pid: The host's number of its program's process, in its network namespace.
        inner: Process descriptor of the init of its pid namespace, to which orphans are given.
    """

    memory_bytes: int
    group: Cgroup | None
    pid: int
    inner: int
    _socket_tables: Sequence[FileIO] = ()
    _reclaiming: "subprocess.Popen[bytes] | None" = None
    _reclaim_began: float = 0.0
    _next_reclaim: float = 0.0
    _next_search: float = 0.0
    _began: float = field(default_factory=time.monotonic)
    _next_search_of_locks: float = 0.0
    _host_bytes: int | None = None
    """The least kernel memory of the whole host since the first look."""

    _free_bytes: int = 0
    """The most available memory of the host since the first look."""

    _next_look: float = 0.0
    _next_sum: float = 0.0
    _search: concurrent.futures.Future[bool] | None = None
    _opened: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __post_init__(self) -> None:
        self._next_search_of_locks = self._began + _LOCKS_SECONDS
        if self.group is None:
            self._free_bytes, self._next_sum = process_memory.read_free_bytes(), time.monotonic() + _SUM_SECONDS

    def is_exceeded(self) -> bool:
        """Whether the run exceeds what a run of this size may have."""
        if self._count_sockets() * _SOCKET_BYTES > self.memory_bytes:
            return True
        if self._is_found_to_hold_many():
            return True
        if self.group is None:
            return False
        return self.group.exceeds_with_sockets(self.memory_bytes) or self._is_share_exceeded(self.group)

    def close(self) -> None:
        """Close what it has open."""
        self._stop_reclaim()
        self._opened.close()

    def _is_share_exceeded(self, group: Cgroup) -> bool:
        """Version 1 counts caches of the kernel, above all names of files, like memory in use. So the kernel is asked
        to free them before a run is ended. A separate process asks, since it can be killed: against a program that
        allocates all the time the kernel would continue for ever.
        """
        exceeded = group.kernel_bytes() > max(_LEAST_BYTES, int(self.memory_bytes * _SHARE))
        now = time.monotonic()
        if self._reclaiming is not None:
            spent = time.clock_gettime(~self._reclaiming.pid << 3 | _PROCESS_CPU_CLOCK)  # it has not been reaped
            overdue = now >= self._reclaim_began + _LONGEST_RECLAIM_SECONDS or spent >= _RECLAIM_SECONDS
            if self._reclaiming.poll() is None and not overdue:
                return False
            self._stop_reclaim()
            # On a busy host it takes long, but little processor time.
            pause = max(_LEAST_PAUSE_SECONDS, min(spent / _RECLAIM_SHARE, _LONGEST_PAUSE_SECONDS))
            self._next_reclaim = now + pause
            return exceeded
        if not exceeded or group.version == 2:
            return exceeded
        if now >= self._next_reclaim:
            path, value = group.reclaim_request
            # Freed memory leaves the account a little later, when no processor reads it any more.
            command = ["/bin/sh", "-c", 'echo "$1" > "$0"; sleep 0.2', path, str(value)]
            self._reclaim_began = now
            self._reclaiming = subprocess.Popen(  # noqa: S603 - every word is ours
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={}
            )
        return False

    def _is_found_to_hold_many(self) -> bool:
        """Whether a search has found too many locks or watches, or too much memory. It takes a while, so it is done in
        a thread, and only where there is a reason.
        """
        if self._search is not None:
            if not self._search.done():
                return False
            search, self._search = self._search, None
            return search.result()
        now = time.monotonic()
        if self.group is None and now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            if self._is_sum_due():
                has_more = partial(process_memory.has_more_memory, self.memory_bytes)
                self._search = _sums.submit(has_more, (self.pid, _number(self.inner)))
                return False
        if now >= self._next_search:
            self._next_search = now + _SEARCH_SECONDS
            if searches := self._choose_searches():
                roots = self.pid, _number(self.inner)
                self._search = _searches.submit(lambda: any(has_many(roots) for has_many in searches))
        return False

    def _choose_searches(self) -> Sequence[Callable[[Collection[int]], bool]]:
        searches = list[Callable[[Collection[int]], bool]]()
        if self.group is None and open_files.are_watches_exhausted():
            searches.append(open_files.has_many_watches)
        if self._is_search_of_locks_due():
            searches.append(open_files.has_many_locks)
        return searches

    def _is_search_of_locks_due(self) -> bool:
        """Whether to search for locks: when the kernel's memory has grown, and each time the run is twice as old."""
        now, host_bytes = time.monotonic(), open_files.read_kernel_bytes()
        self._host_bytes = host_bytes if self._host_bytes is None else min(host_bytes, self._host_bytes)
        if host_bytes < self._host_bytes + _GROWN_BYTES and now < self._next_search_of_locks:
            return False
        self._host_bytes = max(self._host_bytes, host_bytes - _GROWN_BYTES // 2)  # look again when there is more
        self._next_search_of_locks = now + max(_LOCKS_SECONDS, now - self._began)
        return True

    def _is_sum_due(self) -> bool:
        """Whether to sum up the processes' memory: when the host has less, and now and then, since others may free
        memory meanwhile.
        """
        now, free, share = time.monotonic(), process_memory.read_free_bytes(), int(self.memory_bytes * _TAKEN_SHARE)
        self._free_bytes = max(self._free_bytes, free)
        if free > self._free_bytes - share and now < self._next_sum:
            return False
        self._free_bytes = free + share // 2  # look again when there is less by as much
        self._next_sum = now + _SUM_SECONDS
        return True

    def _stop_reclaim(self) -> None:
        if self._reclaiming is not None:
            self._reclaiming.kill()
            self._reclaiming.wait()
            self._reclaiming = None

    def _count_sockets(self) -> int:
        """TCP sockets of the network namespace that are connected, listen or are closed with data left to send.

        Without a cgroup all its sockets: the buffers of those between processes are counted nowhere either.
        """
        if not self._socket_tables:
            self._socket_tables = self._open_socket_tables()
        everything = self.group is None
        return sum(_count_in(table, everything=everything) for table in self._socket_tables)

    def _open_socket_tables(self) -> Sequence[FileIO]:
        """Called only when a run has lasted a while: opening the tables takes longer than reading them.

        Any thread will do. The first may have ended while others go on.
        """
        for thread in iterate_threads(self.pid):
            opened = []
            for name in ("sockstat", "sockstat6"):
                with contextlib.suppress(OSError):  # it has just ended, or there is no IPv6
                    opened.append(self._opened.enter_context(FileIO(f"/proc/{self.pid}/task/{thread}/net/{name}")))
            if opened:
                return opened
        return ()


def _number(process: int) -> int:
    """The process id of a process descriptor."""
    words = Path(f"/proc/self/fdinfo/{process}").read_text().split()
    return int(words[words.index("Pid:") + 1])


def _count_in(table: FileIO, *, everything: bool) -> int:
    """The number behind ``inuse`` in the line of TCP; the others of that line count on the whole host.

    The number of all sockets, where it is wanted, has a line of its own in the first of the tables.
    """
    prefixes = (b"sockets: used ",) if everything else (b"TCP: inuse ", b"TCP6: inuse ")
    for line in os.pread(table.fileno(), _FILE_BYTES, 0).splitlines():
        if line.startswith(prefixes):
            return int(line.split()[2])
    return 0


@contextlib.asynccontextmanager
async def free_leftovers(group: Cgroup | None) -> AsyncIterator[None]:
    """On leaving, when no process is left, have the kernel free a group's caches, if they are large. They are useless
    to others, and once the group is removed they would be accounted to none.
    """
    try:
        yield
    finally:
        if (
            group is not None
            and group.has_ever_used(_LEFT_BYTES)  # cheap to ask
            and group.cached_kernel_bytes() > _LEFT_BYTES
        ):
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(group.reclaim)
