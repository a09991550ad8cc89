"""Finds the processes of a run by their parents, where no cgroup lists them."""

import contextlib
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path


def find_family(roots: Collection[int]) -> set[int]:
    """These processes and all below them."""
    children = defaultdict[int, list[int]](list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # Each has a name of any bytes, which it chooses, before the last parenthesis.
            children[int(path.read_bytes().rpartition(b")")[2].split()[1])].append(int(path.parent.name))
    found, waiting = set[int](), [*roots]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children[pid]
    return found
