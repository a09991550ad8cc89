"""The tool ``git_status``: the state of the work tree."""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Final, TypedDict

from gloveport.model.constraints import Constraints
from gloveport.workspace.files.spelling import spell_path
from gloveport.workspace.git.invocation import GitAnswer, pathspec, run_git
from gloveport.workspace.program import RunProgram
from gloveport.workspace.tool_types import Text

_BYTES: Final = 8 << 20
_AN_ENTRY: Final = 512
_FIELDS: Final = {b"1": 8, b"2": 9, b"u": 10, b"?": 1}
"""Fields before the path, by what an entry begins with."""


class Entry(TypedDict):
    """One path. A status is one letter of ``git status --short``; an untracked directory ends with ``/``."""

    path: str
    original_path: str | None
    index_status: str
    worktree_status: str


class Status(GitAnswer):
    """The answer of ``git_status``, as it is on the wire."""

    branch: str | None
    head: str | None
    upstream: str | None
    ahead: int
    behind: int
    clean: bool
    entries: list[Entry]
    truncated: bool


async def git_status(
    run: RunProgram,
    path: Text = ".",
    *,
    include_untracked: bool = True,
    max_entries: Annotated[int, Constraints(ge=1, le=10_000)] = 1000,
) -> Status:
    """Branch, and files that differ from the last commit.

    Of a submodule only its commit is compared: what changed within it is its own repository's.

    Returns:
        ``branch`` is null where HEAD names a commit, ``head`` where there is no commit yet, ``upstream`` where there
        is none. ``clean`` is about all that was asked for, not only the entries that came back.

    Raises:
        WorkspaceError: GIT_ERROR, INVALID_ARGUMENT; or as ``check_path``, ``RunProgram``.
    """
    limit = pathspec((path,))
    ran = await run_git(
        run,
        *("status", "--porcelain=v2", "--branch", "-z", "--find-renames", "--ahead-behind"),
        f"--untracked-files={'normal' if include_untracked else 'no'}",
        "--ignore-submodules=dirty",
        *limit,
        most_bytes=min(_BYTES, (1 << 16) + max_entries * _AN_ENTRY),
    )
    records = ran.stdout.split(b"\0")[:-1]  # behind the last NUL is nothing, or a piece that was cut off
    branch, entries = _branch(records), list(islice(_entries(iter(records)), max_entries + 1))
    head, name, upstream = branch.get(b"oid"), branch.get(b"head"), branch.get(b"upstream")
    ahead, _, behind = branch.get(b"ab", b"+0 -0").partition(b" ")
    return {
        **ran.answer,
        "branch": None if name in {None, b"(detached)"} else spell_path(name or b""),
        "head": None if head in {None, b"(initial)"} else spell_path(head or b""),
        "upstream": None if upstream is None else spell_path(upstream),
        "ahead": abs(int(ahead)),
        "behind": abs(int(behind)),
        "clean": not entries,
        "entries": entries[:max_entries],
        "truncated": len(entries) > max_entries or ran.truncated,
    }


def _branch(records: list[bytes]) -> dict[bytes, bytes]:
    """The header lines ``# branch.<name> <value>``."""
    found: dict[bytes, bytes] = {}
    for record in records:
        if not record.startswith(b"# "):
            break
        name, _, value = record.partition(b" branch.")[2].partition(b" ")
        found[name] = value
    return found


def _entries(records: Iterator[bytes]) -> Iterator[Entry]:
    for record in records:
        kind = record[:1]
        if kind not in _FIELDS:
            continue
        *fields, path = record.split(b" ", _FIELDS[kind])
        both = "??" if kind == b"?" else fields[1].decode("ascii").replace(".", " ")
        original = next(records, None) if kind == b"2" else None
        yield {
            "path": spell_path(path),
            "original_path": None if original is None else spell_path(original),
            "index_status": both[0],
            "worktree_status": both[1],
        }
