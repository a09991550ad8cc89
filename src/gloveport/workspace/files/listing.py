"""The names in a directory, and the files below one: what comes first in the order that was asked for.

However much is there, no more is kept than one answer holds.
"""

import heapq
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Final, Literal, NotRequired, TypedDict

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files import globs
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.files.walk import USUAL, Include, Walk, WalkBounds, WalkEntry

MAX_OUTPUT_BYTES: Final = 1 << 21
"""Of one answer, as text: a line ``path [type]`` for each entry."""

MAX_PATTERNS: Final = 100
MAX_PATTERN: Final = 256
"""Characters of one pattern."""

_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""Seconds of the years 1 to 9999. A program may give a file any time, and text has no others."""

_KINDS: Final = ("directory", "file", "symlink", "other")

_ORDERS: Final[Mapping[str, Callable[[WalkEntry], tuple[Any, ...]]]] = {
    # What a directory holds stands right behind it: no name has a sign that comes before this one.
    "name": lambda found: (found.path.replace("/", "\0"),),
    "type": lambda found: (_KINDS.index(found.kind), found.path),
    "modified": lambda found: (found.modified, found.path),
    "path": lambda found: (found.path,),
}

_CUT: Final[Mapping[str, str]] = {
    "names": "too many names, or too long ones, to look at them all",
    "time": "looking took too long",
    "entries": "entry limit reached",
    "bytes": "byte limit reached",
}


class FileEntry(TypedDict):
    """One of the files of ``list_files``, as it is on the wire."""

    path: str
    type: str
    size_bytes: int
    modified: str


class DirEntry(FileEntry):
    """One of the entries of ``list_dir``, as it is on the wire."""

    name: str
    is_hidden: bool
    is_ignored: bool
    symlink_target: NotRequired[str]


class Listing(TypedDict):
    """What both answers have. ``truncated_by`` is entries, bytes, names or time: see ``WalkBounds``."""

    path: str
    truncated: bool
    truncated_by: str | None
    output_lines: int
    output_bytes: int
    warnings: list[str]


class DirListing(Listing):
    """The answer of ``list_dir``, as it is on the wire."""

    entries: list[DirEntry]


class FileListing(Listing):
    """The answer of ``list_files``, as it is on the wire."""

    files: list[FileEntry]


def list_dir(
    tree: Tree,
    path: str = ".",
    *,
    max_depth: int = 1,
    max_entries: int = 1000,
    include: AbstractSet[Include] = frozenset(),
    sort: Literal["name", "type", "modified"] = "name",
    bounds: WalkBounds = USUAL,
) -> DirListing:
    """List what lies in a directory, ``max_depth`` levels of it. No link is followed.

    Args:
        tree: The workspace.
        path: Of the directory, which itself may be hidden or ignored.
        max_depth: 1 is what the directory itself holds.
        max_entries: How many come back.
        include: What is listed though it is hidden or ignored.
        sort: Their order; ``modified`` is the oldest first.
        bounds: What it may cost.

    Raises:
        WorkspaceError: As ``Tree.directory``.
    """
    walk = Walk(tree, include, max_depth, bounds)
    with tree.directory(path) as start:
        first = heapq.nsmallest(max_entries + 1, walk.below(start), _ORDERS[sort])
        chosen, facts = _choose_entries(start.path, first, max_entries, walk)
    return {**facts, "entries": [_dir_entry(found) for found in chosen]}


def list_files(
    tree: Tree,
    path: str = ".",
    *,
    patterns: Sequence[str] = (),
    exclude_patterns: Sequence[str] = (),
    max_results: int = 5000,
    include: AbstractSet[Include] = frozenset(),
    sort: Literal["path", "modified"] = "path",
    bounds: WalkBounds = USUAL,
) -> FileListing:
    """List the regular files, and the links that lead to nothing outside, below a directory.

    Args:
        tree: The workspace.
        path: Of the directory, which itself may be hidden or ignored.
        patterns: A path must match one of them, if there are any: see ``globs.listing``.
        exclude_patterns: Neither it nor a directory above it may match one of these.
        max_results: How many come back.
        include: What is listed though it is hidden or ignored.
        sort: Their order; ``modified`` is the oldest first.
        bounds: What it may cost.

    Raises:
        WorkspaceError: INVALID_ARGUMENT for too many patterns, or one that is too long; or as ``Tree.directory``.
    """
    wanted = _compile_patterns(patterns, "")
    unwanted = _compile_patterns(exclude_patterns, "(?s:/.*)?")
    walk = Walk(tree, include, bounds=bounds)

    def files(everything: Iterable[WalkEntry]) -> Iterator[WalkEntry]:
        for found in everything:
            rooted = f"/{found.path}"
            if (
                found.kind in {"file", "symlink"}
                and (not wanted or _matches(wanted, rooted))
                and not _matches(unwanted, rooted)
                and not (found.kind == "symlink" and _leads_outside(tree, found.path))
            ):
                yield found

    with tree.directory(path) as start:
        first = heapq.nsmallest(max_results + 1, files(walk.below(start)), _ORDERS[sort])
        chosen, facts = _choose_entries(start.path, first, max_results, walk)
    return {**facts, "files": [_file_entry(found) for found in chosen]}


def _compile_patterns(patterns: Sequence[str], end: str) -> list[re.Pattern[str]]:
    if len(patterns) > MAX_PATTERNS or any(len(pattern) > MAX_PATTERN for pattern in patterns):
        raise WorkspaceError(
            "INVALID_ARGUMENT", f"more than {MAX_PATTERNS} patterns, or one of more than {MAX_PATTERN} characters"
        )
    return [re.compile(globs.listing(pattern.removesuffix("/") if end else pattern) + end) for pattern in patterns]


def _matches(patterns: Iterable[re.Pattern[str]], path: str) -> bool:
    return any(pattern.fullmatch(path) for pattern in patterns)


def _leads_outside(tree: Tree, path: str) -> bool:
    try:
        with tree.file(path):
            return False
    except WorkspaceError as error:
        return error.category == "security"


def _choose_entries(
    path: str, first: Sequence[WalkEntry], limit: int, walk: Walk
) -> tuple[Sequence[WalkEntry], Listing]:
    """What of the first entries fits into the answer, and what the answer says about that."""
    sizes = [len(f"{found.path} [{found.kind}]\n".encode()) for found in first[:limit]]
    totals = list(accumulate(sizes))
    fits = bisect_right(totals, MAX_OUTPUT_BYTES)
    cuts = [
        *(["bytes"] if fits < len(totals) else []),
        *([walk.cut] if walk.cut else []),  # then the first entries are not the first of all
        *(["entries"] if len(first) > limit else []),
    ]
    warnings = [_CUT[cut] for cut in cuts]
    if walk.unreadable:
        warnings.append(f"directories that can't be read: {walk.unreadable}")
    if walk.unruled:
        warnings.append(f"directories whose .gitignore does not count, after so many others: {walk.unruled}")
    return first[:fits], {
        "path": path,
        "truncated": bool(cuts),
        "truncated_by": cuts[0] if cuts else None,
        "output_lines": fits,
        "output_bytes": totals[fits - 1] if fits else 0,
        "warnings": warnings,
    }


def _file_entry(found: WalkEntry) -> FileEntry:
    return {"path": found.path, "type": found.kind, "size_bytes": found.size, "modified": _iso(found.modified)}


def _dir_entry(found: WalkEntry) -> DirEntry:
    entry: DirEntry = {
        "name": found.path.rpartition("/")[2],
        "path": found.path,
        "type": found.kind,
        "size_bytes": found.size,
        "modified": _iso(found.modified),
        "is_hidden": found.hidden,
        "is_ignored": found.ignored,
    }
    if found.kind == "symlink":
        entry["symlink_target"] = found.target
    return entry


def _iso(nanoseconds: int) -> str:
    seconds = min(max(nanoseconds // 1_000_000_000, _FIRST), _LAST)
    time = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None, microsecond=nanoseconds // 1000 % 1_000_000)
    return f"{time.isoformat()}Z"
