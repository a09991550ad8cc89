"""Chooses which protected paths are mounted if there are more than possible mounts. Pure.

Paths that existed before any command are always protected: if there are too many, by directories that are read-only as
a whole. Paths that commands have made come after these, as far as there is room, and make no directory read-only: else
a command could lock the next one out of the whole workspace.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct

MOST_MOUNTS: Final = 2048
"""The most mounts of one sandbox: they take 40 ms. The kernel makes mounts one after the other, for the whole host."""


class Mounts(Struct, frozen=True, kw_only=True):
    """The mounts, each of a path over itself, by its path below the root.

    Attributes:
        read_only: Paths that can't be written.
        pinned: Paths that can't be moved.
        whole: Directories of ``read_only`` that stand for more paths in them than can be mounted.
        loose: Paths that are not protected.
    """

    read_only: AbstractSet[bytes]
    pinned: AbstractSet[bytes]
    whole: AbstractSet[bytes] = frozenset()
    loose: AbstractSet[bytes] = frozenset()


def plan_mounts(
    owned: AbstractSet[bytes], made_by_commands: AbstractSet[bytes], pinned: AbstractSet[bytes], most: int
) -> Mounts:
    """Choose at ``most`` so many mounts: of the owner's paths, of paths that commands have made, of directories to
    pin.
    """
    if len(owned) + len(made_by_commands) + len(pinned) <= most:
        return Mounts(read_only=owned | made_by_commands, pinned=pinned - owned - made_by_commands)
    read_only, whole = _gather_paths(owned, most)
    mounted = with_ancestors(read_only)
    mounts, loose = set(read_only), set()
    for path in sorted(made_by_commands, key=rank):
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
    """Sort key if there is no room for all paths: usual spellings and paths near the root first."""
    name = path.rpartition(b"/")[2]
    return name != name.lower(), path.count(b"/"), path


def with_ancestors(paths: Iterable[bytes]) -> set[bytes]:
    """These paths, and all directories above them except the root."""
    return {one for path in paths for one in (path, *_above(path)) if one or not path}


def _gather_paths(owned: AbstractSet[bytes], most: int) -> tuple[set[bytes], set[bytes]]:
    """These paths or directories above them, as deep as possible, so that they are few enough."""
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
