"""Lists the names in a directory and the files below one: the first ones in the requested order.

However many there are, only as many are kept as one answer holds.
"""

import heapq
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from gloveport.model.constraints import Constraints
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files import globs
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.files.walk import USUAL, Walk, WalkBounds, WalkEntry
from gloveport.workspace.tool_types import Excerpt, Globs, Text, join_arguments

MAX_OUTPUT_BYTES: Final = 1 << 21
"""The most bytes of one answer, as text: a line ``path [type]`` for each entry."""

MAX_DEPTH: Final = 20
MAX_PATTERNS: Final = 100
MAX_PATTERN: Final = 256
"""The most characters of one pattern."""

_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""Seconds of the years 1 to 9999. A program may give a file any time, but ISO text has only these years."""

_KINDS: Final = ("directory", "file", "symlink", "other")

_ORDERS: Final[Mapping[str, Callable[[WalkEntry], tuple[Any, ...]]]] = {
    # The contents of a directory follow it directly: no character of a name sorts before this one.
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


class Listing(Excerpt):
    """The common fields of both answers. ``truncated_by`` is entries, bytes, names or time: see ``WalkBounds``."""

    path: str
    warnings: list[str]


class DirListing(Listing):
    """The answer of ``list_dir``, as it is on the wire."""

    entries: list[DirEntry]


class FileListing(Listing):
    """The answer of ``list_files``, as it is on the wire."""

    files: list[FileEntry]


def list_dir(  # noqa: PLR0913 - they are the tool's
    tree: Tree,
    path: Text = ".",
    *,
    recursive: bool = False,
    max_depth: Annotated[int, Constraints(ge=1, le=MAX_DEPTH)] = 1,
    max_entries: Annotated[int, Constraints(ge=1, le=10_000)] = 1000,
    include_hidden: bool = False,
    include_ignored: bool = False,
    sort: Literal["name", "type", "modified"] = "name",
    bounds: WalkBounds = USUAL,
) -> DirListing:
    """List a directory; with recursive, as deep as max_depth, or 20 levels.

    The directory itself may be hidden or ignored. No link is followed. ``modified`` sorts the oldest first.

    Raises:
        WorkspaceError: As ``Tree.open_directory``.
    """
    depth = (max_depth if max_depth > 1 else MAX_DEPTH) if recursive else 1
    walk = Walk(tree=tree, hidden=include_hidden, ignored=include_ignored, depth=depth, bounds=bounds)
    with tree.open_directory(path) as start:
        first = heapq.nsmallest(max_entries + 1, walk.below(start), _ORDERS[sort])
        chosen, facts = _choose_entries(start.path, first, max_entries, walk)
    return {**facts, "entries": [_dir_entry(found) for found in chosen]}


def list_files(  # noqa: PLR0913 - they are the tool's
    tree: Tree,
    path: Text = ".",
    *,
    patterns: Globs = None,
    glob: str | None = None,
    exclude_patterns: Globs = None,
    include_hidden: bool = False,
    include_ignored: bool = False,
    max_results: Annotated[int, Constraints(ge=1, le=50_000)] = 5000,
    sort: Literal["path", "modified"] = "path",
    bounds: WalkBounds = USUAL,
) -> FileListing:
    """List files below a directory that match a pattern; .gitignore is respected.

    These are regular files, and links that lead to nothing outside. Neither a path nor a directory above it may match
    one of ``exclude_patterns``; for the patterns see ``globs.listing_regex``. ``modified`` sorts the oldest first.

    Raises:
        WorkspaceError: INVALID_ARGUMENT for too many patterns, or one that is too long; or as ``Tree.open_directory``.
    """
    inclusions = _compile_patterns(join_arguments(patterns, glob), "")
    exclusions = _compile_patterns(exclude_patterns or (), "(?s:/.*)?")
    walk = Walk(tree=tree, hidden=include_hidden, ignored=include_ignored, bounds=bounds)

    def is_wanted(found: WalkEntry) -> bool:
        rooted = f"/{found.path}"
        return (
            found.kind in {"file", "symlink"}
            and (not inclusions or _matches(inclusions, rooted))
            and not _matches(exclusions, rooted)
            and not (found.kind == "symlink" and _leads_outside(tree, found.path))
        )

    with tree.open_directory(path) as start:
        first = heapq.nsmallest(max_results + 1, filter(is_wanted, walk.below(start)), _ORDERS[sort])
        chosen, facts = _choose_entries(start.path, first, max_results, walk)
    return {**facts, "files": [_file_entry(found) for found in chosen]}


def _compile_patterns(patterns: Sequence[str], end: str) -> list[re.Pattern[str]]:
    if len(patterns) > MAX_PATTERNS or any(len(pattern) > MAX_PATTERN for pattern in patterns):
        raise WorkspaceError(
            "INVALID_ARGUMENT", f"more than {MAX_PATTERNS} patterns, or one of more than {MAX_PATTERN} characters"
        )
    return [
        re.compile(globs.listing_regex(pattern.removesuffix("/") if end else pattern) + end) for pattern in patterns
    ]


def _matches(patterns: Iterable[re.Pattern[str]], path: str) -> bool:
    return any(pattern.fullmatch(path) for pattern in patterns)


def _leads_outside(tree: Tree, path: str) -> bool:
    try:
        with tree.open_file(path):
            return False
    except WorkspaceError as error:
        return error.category == "security"


def _choose_entries(
    path: str, first: Sequence[WalkEntry], limit: int, walk: Walk
) -> tuple[Sequence[WalkEntry], Listing]:
    """The first entries that fit into the answer, and its facts about truncation."""
    sizes = [len(f"{found.path} [{found.kind}]\n".encode()) for found in first[:limit]]
    totals = list(accumulate(sizes))
    fits = bisect_right(totals, MAX_OUTPUT_BYTES)
    cuts = [
        *(["bytes"] if fits < len(totals) else []),
        *([walk.cut] if walk.cut else []),  # then these may not be the first of all entries
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
        "path": found.path,
        "type": found.kind,
        "size_bytes": found.size,
        "modified": _iso(found.modified),
        "name": found.path.rpartition("/")[2],
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
