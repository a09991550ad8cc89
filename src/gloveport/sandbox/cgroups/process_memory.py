"""Adds up the memory of a run's processes, where no cgroup counts it.

A limit of each process by itself leaves a run with many of them as many times as much.
"""

import contextlib
from collections.abc import Collection
from pathlib import Path

from gloveport.sandbox.cgroups.process_family import find_family

_KIB = 1024


def read_free_bytes() -> int:
    """Memory of the host that can be had, and swap."""
    fields = _read_sizes(Path("/proc/meminfo"))
    return fields["MemAvailable"] + fields["SwapFree"]


def has_more_memory(most: int, roots: Collection[int]) -> bool:
    """Whether these processes and all below them have more than so many bytes. Who tells nothing, has."""
    total = 0
    try:
        for pid in find_family(roots):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                total += _read_memory(Path(f"/proc/{pid}"))
    except PermissionError:
        return True
    return total > most


def _read_memory(process: Path) -> int:
    """Bytes of one process, and of its tables of pages. What processes share is divided among those that do.

    Of one that can't be looked into all counts, as that may be known of anybody.
    """
    status = _read_sizes(process / "status")
    try:
        rollup = _read_sizes(process / "smaps_rollup")
        own = rollup.get("Pss", 0) + rollup.get("SwapPss", 0)
    except PermissionError:
        own = status.get("RssAnon", 0) + status.get("RssShmem", 0) + status.get("VmSwap", 0)
    return own + status.get("VmPTE", 0)  # a process that ends has none


def _read_sizes(path: Path) -> dict[str, int]:
    """The lines of a file that name a size: name → bytes. One of them is the name of a process, which chooses it."""
    lines = (line.split() for line in path.read_text(errors="replace").splitlines())
    sizes = (words for words in lines if words[2:] == ["kB"] and words[1].isdecimal())
    return {words[0].rstrip(":"): int(words[1]) * _KIB for words in sizes}
