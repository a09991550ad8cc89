"""Adds up the memory of a run's processes, where no cgroup counts it.

A limit for each process alone would let a run of many processes have that limit many times.
"""

import contextlib
from collections.abc import Collection
from pathlib import Path

from gloveport.sandbox.cgroups.process_family import iterate_generations, iterate_threads, share_memory

_KIB = 1024


def read_free_bytes() -> int:
    """Available memory of the host, and free swap."""
    fields = _read_sizes(Path("/proc/meminfo"))
    return fields["MemAvailable"] + fields["SwapFree"]


def has_more_memory(most: int, roots: Collection[int]) -> bool:
    """Whether these processes and all below them have more than ``most`` bytes. True if a process can't be read."""
    try:
        for processes in iterate_generations(roots):
            # Between vfork and exec a child shares all memory of its parent, and has none of its own.
            if sum(_read_memory(pid) for pid, parent in processes if not share_memory(pid, parent)) > most:
                return True
    except PermissionError:
        return True
    return False


def _read_memory(pid: int) -> int:
    """Bytes of one process and its page tables. Shared memory is divided among the processes that share it.

    The figures are read from any thread that has not ended. For a process that can't be inspected all of its resident
    memory counts, which its status tells everybody.
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
    """The sizes in a thread's status; empty if it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return _read_sizes(Path(f"/proc/{thread}/status"))
    return {}


def _read_sizes(path: Path) -> dict[str, int]:
    """The lines of a file with a size: name → bytes. One line is the process's name, which the program chooses."""
    lines = (line.split() for line in path.read_text(errors="replace").splitlines())
    sizes = (words for words in lines if words[2:] == ["kB"] and words[1].isdecimal())
    return {words[0].rstrip(":"): int(words[1]) * _KIB for words in sizes}
