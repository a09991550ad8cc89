"""Adds up the memory of a run's processes, where no cgroup counts it.

A limit of each process by itself leaves a run with many of them as many times as much.
"""

import contextlib
from collections.abc import Collection
from pathlib import Path
from typing import Final

from gloveport.sandbox.cgroups.process_family import find_family

_KIB = 1024
_FILES: Final = (("smaps_rollup", ("Pss", "SwapPss")), ("status", ("VmPTE",)))
"""What processes share is divided among those that do. Tables of pages belong to each by itself."""


def read_free_bytes() -> int:
    """Memory of the host that can be had, and swap."""
    fields = _read_sizes(Path("/proc/meminfo"))
    return fields["MemAvailable"] + fields["SwapFree"]


def has_more_memory(most: int, roots: Collection[int]) -> bool:
    """Whether these processes and all below them have more than so many bytes. Who can't be looked at, has."""
    total = 0
    try:
        for pid in find_family(roots):
            for name, wanted in _FILES:
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    sizes = _read_sizes(Path(f"/proc/{pid}/{name}"))
                    total += sum(sizes.get(field, 0) for field in wanted)  # a process that ends has none
    except PermissionError:
        return True
    return total > most


def _read_sizes(path: Path) -> dict[str, int]:
    """The lines of a file that name a size: name → bytes."""
    lines = (line.split() for line in path.read_text(errors="replace").splitlines())
    return {words[0].rstrip(":"): int(words[1]) * _KIB for words in lines if words[2:] == ["kB"]}
