"""Chooses which protected paths are mounted where there are more than there can be mounts. Pure.

What was there before any command is always kept: where it is too much, as part of a directory that is read-only as a
whole. What commands have made comes after that, as far as there is room, and makes no directory read-only: a command
could lock the next one out of all of the workspace by it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct

MOST_MOUNTS: Final = 2048
"""Of one sandbox: they take it 40 ms. The kernel makes mounts one after the other, for all of the host."""


class Mounts(Struct, frozen=True, kw_only=True):
    """What is mounted, each over itself, by its path below the root.

    Attributes:
        read_only: What can't be written.
        pinned: What can't be moved.
        whole: Directories of ``read_only`` that are there for more than can be mounted in them.
        loose: What is not kept.
    """

    read_only: AbstractSet[bytes]
    pinned: AbstractSet[bytes]
    whole: AbstractSet[bytes] = frozenset()
    loose: AbstractSet[bytes] = frozenset()


def plan_mounts(owned: AbstractSet[bytes], made: AbstractSet[bytes], pinned: AbstractSet[bytes], most: int) -> Mounts:
    """At ``most`` so many mounts: of what is the owner's, of what commands have made, of directories to be pinned."""
    if len(owned) + len(made) + len(pinned) <= most:
        return Mounts(read_only=owned | made, pinned=pinned - owned - made)
    read_only, whole = _gather_paths(owned, most)
    mounted = with_ancestors(read_only)
    mounts, loose = set(read_only), set()
    for path in sorted(made, key=rank):
        more = with_ancestors([path]) - mounted
        if _lies_in(path, read_only):
            continue
        if len(mounted) + len(more) <= most:
            mounted |= more
            mounts.add(path)
        else:
            loose.add(path)
    for path in sorted(pinned - mounted, key=rank):
        more = with_ancestors([path]) - mounted
        if len(mounted) + len(more) <= most and not _lies_in(path, read_only):
            mounted |= more
    return Mounts(read_only=mounts, pinned=mounted - mounts, whole=whole, loose=loose)


def rank(path: bytes) -> tuple[bool, int, bytes]:
    """Its place among others where there is no room for all: as it is usually written first, and near the root."""
    name = path.rpartition(b"/")[2]
    return name != name.lower(), path.count(b"/"), path


def with_ancestors(paths: Iterable[bytes]) -> set[bytes]:
    """These paths, and those of all directories above them but the root."""
    return {one for path in paths for one in (path, *_above(path)) if one or not path}


def _gather_paths(owned: AbstractSet[bytes], most: int) -> tuple[set[bytes], set[bytes]]:
    """These paths or directories above them, as deep ones as possible, so that there are few enough of them."""
    read_only, whole = set(owned), set[bytes]()
    mounted = with_ancestors(read_only)
    for level in range(max(map(_depth, mounted), default=0) - 1, -1, -1):
        spare = most - len(mounted)
        if spare >= 0:
            break
        below = Counter(_upper(path, level) for path in mounted if _depth(path) > level)
        for directory, count in below.most_common():
            if spare >= 0:
                break
            spare += count
            whole.add(directory)
        whole = {path for path in whole if not any(above in whole for above in _above(path))}
        read_only = {path for path in read_only if not _lies_in(path, whole)} | whole
        mounted = with_ancestors(read_only)
    return read_only, whole


def _depth(path: bytes) -> int:
    return path.count(b"/") + 1 if path else 0


def _upper(path: bytes, level: int) -> bytes:
    return b"/".join(path.split(b"/")[:level])


def _lies_in(path: bytes, directories: AbstractSet[bytes]) -> bool:
    return bool(directories) and any(above in directories for above in (path, *_above(path)))


def _above(path: bytes) -> Iterator[bytes]:
    """The directories above, up to the root, which is empty."""
    while path:
        path = path.rpartition(b"/")[0]
        yield path
