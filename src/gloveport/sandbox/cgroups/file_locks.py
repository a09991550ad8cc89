"""Locks on files that one run holds. The kernel counts them for nobody, and keeps 192 bytes of its memory for each.

No limit of a process or a cgroup bounds them: 16,000 open files with a thousand locks each are 3 GB. So whoever has
made many is looked for when the kernel's memory has grown.
"""

from collections.abc import Collection
from pathlib import Path

from gloveport.sandbox.cgroups import open_files
from gloveport.sandbox.cgroups.open_files import Descriptor

MOST = 500_000
"""A run may hold so many, in about 100 MiB of the kernel's memory; an honest one was never seen to hold a thousand."""

_MEMORY = Path("/proc/meminfo")


def read_kernel_bytes() -> int:
    """Memory of the kernel's own objects on the whole host that can't be freed."""
    words = _MEMORY.read_text().split()
    return int(words[words.index("SUnreclaim:") + 1]) * 1024


def has_many(roots: Collection[int]) -> bool:
    """Whether these processes and all below them hold more than ``MOST``."""
    return hold_more(open_files.find_family(roots), MOST)


def hold_more(pids: Collection[int], most: int) -> bool:
    """Whether these processes hold more locks: see ``open_files.hold_more``."""
    return open_files.hold_more(pids, most, _count)


def _count(descriptor: Descriptor, most: int) -> int:
    return open_files.count_lines(descriptor.information, most, b"lock:") if descriptor.target.startswith("/") else 0
