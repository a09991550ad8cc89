"""Counts what processes hold by their open descriptors, where the kernel keeps no account of it."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

_MOST_DESCRIPTORS = 100_000
_IN_FLIGHT_SHARES = 8
_CHUNK_BYTES = 1 << 16


class Descriptor(NamedTuple):
    """An open descriptor of one thread: threads need not share theirs."""

    target: str
    """What it leads to, as the kernel says it."""

    information: Path
    """Its file below ``/proc``."""


Count: TypeAlias = Callable[[Descriptor, int], int]
"""How many things of one kind a descriptor holds; who has counted more than the second argument may stop."""


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


def hold_more(pids: Collection[int], most: int, count: Count) -> bool:
    """Whether these processes hold more than so many. Who can't be looked at, or has too much to look at, does.

    A descriptor that is in flight between sockets can't be looked at either: it counts for many.
    """
    held = 0
    try:
        for looked_at, descriptor in enumerate(_iterate(pids)):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                held += count(descriptor, most) + _count_in_flight(descriptor) * most // _IN_FLIGHT_SHARES
            if held > most or looked_at >= _MOST_DESCRIPTORS:
                return True
    except PermissionError:
        return True
    return False


def count_lines(path: Path, most: int, kind: bytes) -> int:
    """Lines of a file below ``/proc`` that begin so. Read in pieces: there may be gigabytes."""
    lines, rest = 0, b"\n"
    with path.open("rb", buffering=0) as file:
        while lines <= most and (data := file.read(_CHUNK_BYTES)):
            lines += (rest + data).count(b"\n" + kind)
            rest = data[-len(kind) :]
    return lines


def _iterate(pids: Collection[int]) -> Iterator[Descriptor]:
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                for link in (thread / "fd").iterdir():
                    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                        yield Descriptor(str(link.readlink()), thread / "fdinfo" / link.name)


def _count_in_flight(descriptor: Descriptor) -> int:
    if not descriptor.target.startswith("socket:"):
        return 0
    words = descriptor.information.read_text().split()
    return int(words[words.index("scm_fds:") + 1]) if "scm_fds:" in words else 0
