"""Adds up the memory of a run's processes, where no cgroup counts it.

A limit of each process by itself leaves a run with many of them as many times as much.
"""

import contextlib
from collections.abc import Collection
from pathlib import Path

from gloveport.sandbox.cgroups.process_family import iterate_generations, iterate_threads, share_memory

_KIB = 1024


def read_free_bytes() -> int:
    """Memory of the host that can be had, and swap."""
    fields = _read_sizes(Path("/proc/meminfo"))
    return fields["MemAvailable"] + fields["SwapFree"]


def has_more_memory(most: int, roots: Collection[int]) -> bool:
    """Whether these processes and all below them have more than so many bytes. Who tells nothing, has."""
    try:
        for processes in iterate_generations(roots):
            # Between vfork and exec a child has all that its parent has, and nothing by itself.
            if sum(_read_memory(pid) for pid, parent in processes if not share_memory(pid, parent)) > most:
                return True
    except PermissionError:
        return True
    return False


def _read_memory(pid: int) -> int:
    """Bytes of one process, and of its tables of pages. What processes share is divided among those that do.

    Any of its threads can tell, but for those that have ended. Of a process that can't be looked into all counts, as
    that may be known of anybody.
    """
    for thread in iterate_threads(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            try:
                rollup = _read_sizes(Path(f"/proc/{thread}/smaps_rollup"))
                return rollup.get("Pss", 0) + rollup.get("SwapPss", 0) + _read_status(thread).get("VmPTE", 0)
            except PermissionError:
                status = _read_status(thread)
                if "VmPTE" in status:
                    return sum(status.get(name, 0) for name in ("RssAnon", "RssShmem", "VmSwap", "VmPTE"))
    return 0


def _read_status(thread: int) -> dict[str, int]:
    """Sizes in its status: none of one that has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return _read_sizes(Path(f"/proc/{thread}/status"))
    return {}


def _read_sizes(path: Path) -> dict[str, int]:
    """The lines of a file that name a size: name → bytes. One of them is the name of a process, which chooses it."""
    lines = (line.split() for line in path.read_text(errors="replace").splitlines())
    sizes = (words for words in lines if words[2:] == ["kB"] and words[1].isdecimal())
    return {words[0].rstrip(":"): int(words[1]) * _KIB for words in sizes}
