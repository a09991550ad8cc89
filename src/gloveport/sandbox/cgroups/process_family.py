"""Finds the processes of a run by their parents, where no cgroup lists them, and tells which resources they share."""

import contextlib
import ctypes
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

_KCMP: Final = 312  # of x86-64, as the filter
_KCMP_VM, _KCMP_FILES = 1, 2
_PF_EXITING = 0x4
_MOST_GENERATIONS = 16
"""The most searches for processes that were forked during the previous search, by processes that fork and end."""

_MOST_WALKED = 4096  # or a search behind an endless chain of forks would not end

_libc = ctypes.CDLL(None)


def find_family(roots: Collection[int]) -> dict[int, int]:
    """These processes and all below them: process id → parent."""
    parents, children = dict[int, int](), defaultdict[int, list[int]](list)
    for pid in _list_numbers("/proc"):
        with contextlib.suppress(OSError):
            parent = int(_read_stat(pid)[1])
            parents[pid] = parent
            children[parent].append(pid)
    found, waiting = dict[int, int](), [*roots]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found[pid] = parents.get(pid, 0)
            waiting += children[pid]
    return found


def iterate_generations(roots: Collection[int]) -> Iterator[Iterable[tuple[int, int]]]:
    """These processes and all below them, with their parents; then those that were forked meanwhile, and so on.

    Judge each generation by itself, since they do not all exist at the same time. Later generations are found during
    the iteration: a process can fork and end in less time than a look through all of ``/proc`` takes.
    """
    seen = find_family(roots)
    yield seen.items()
    for _ in range(_MOST_GENERATIONS):
        before = len(seen)
        yield _iterate_newborn(roots, seen)
        if len(seen) == before:
            break


def _iterate_newborn(roots: Collection[int], seen: dict[int, int]) -> Iterator[tuple[int, int]]:
    walked, waiting = set[int](), [*roots]
    while waiting and len(walked) < _MOST_WALKED:
        parent = waiting.pop()
        walked.add(parent)
        for child in _read_children(parent):
            if child not in walked:
                waiting.append(child)
            if child not in seen:
                seen[child] = parent
                yield child, parent


def _read_children(pid: int) -> list[int]:
    """The children of a process; empty if the kernel does not list them (``CONFIG_PROC_CHILDREN``)."""
    children = list[int]()
    for thread in _list_threads(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            children += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split())
    return children


def iterate_threads(pid: int) -> Iterator[int]:
    """The threads of a process, also those that start meanwhile. The first thread may have ended before the others."""
    seen = set[int]()
    for _ in range(_MOST_GENERATIONS):
        threads = [thread for thread in _list_threads(pid) if thread not in seen]
        if not threads:
            break
        seen.update(threads)
        yield from threads


def _list_threads(pid: int) -> list[int]:
    try:
        return _list_numbers(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return []


def _list_numbers(directory: str) -> list[int]:
    # ``Path.glob`` raises ProcessLookupError of whoever ends meanwhile, anywhere on the host.
    return [int(name) for name in os.listdir(directory) if name.isdecimal()]  # noqa: PTH208


def is_ending(thread: int) -> bool:
    """Whether a thread has ended or is ending. An ordinary user can't inspect a thread that has released its memory,
    just as one that hides; but the kernel releases an ending thread's objects by itself.
    """
    try:
        return bool(int(_read_stat(thread)[6]) & _PF_EXITING)
    except (FileNotFoundError, ProcessLookupError):
        return True


def share_descriptors(one: int, other: int) -> bool:
    """Whether two threads share one table of descriptors. False if the kernel does not tell."""
    return _is_same(one, other, _KCMP_FILES)


def share_memory(one: int, other: int) -> bool:
    """Whether two threads share their memory, as processes after ``vfork`` do. False if the kernel does not tell."""
    return _is_same(one, other, _KCMP_VM)


def _is_same(one: int, other: int, kind: int) -> bool:
    same: int = _libc.syscall(_KCMP, one, other, kind, 0, 0)
    return same == 0


def _read_stat(thread: int) -> list[bytes]:
    """The fields behind the name. A program chooses its name, of any bytes; it ends at the last parenthesis."""
    return Path(f"/proc/{thread}/stat").read_bytes().rpartition(b")")[2].split()
