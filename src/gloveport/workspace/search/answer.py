"""The tool ``search_text``: one search, from its arguments to its answer."""

from collections.abc import Sequence
from typing import Annotated, Final

import anyio.to_thread
from pydantic import Field

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.gitignore import IgnoreIndex
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.program import ProgramOutput, RunProgram
from gloveport.workspace.search.engines import MAX_GLOB, MAX_GLOBS, SECONDS, Engine, SearchQuery, run_engine
from gloveport.workspace.search.matches import Chosen, Match, choose_matches
from gloveport.workspace.tool_types import Excerpt, Globs, Text, demand_unicode, join_arguments

MAX_QUERY: Final = 10_000
"""Characters."""

_SUMMARY: Final = b'"type":"summary"'
_REFUSED: Final = 2
_NOT_THERE: Final = 127
_SHORT_BYTES: Final = 64 << 10
_CUT: Final = {
    "results": "result limit reached",
    "bytes": "byte limit reached",
    "time": f"the search was ended after {SECONDS:.0f} s",
    "engine": "the search ended early",
}


class Matches(Excerpt):
    """The answer of ``search_text``, as it is on the wire.

    ``total_matches`` counts lines that match, and is the least number of them where it is not exact. ``truncated_by``
    is results, bytes, time, or engine (it ran out of memory, say). ``output_lines`` counts lines of the context too.
    """

    query: str
    matches: list[Match]
    total_matches: int
    total_matches_exact: bool
    engine: str
    warnings: list[str]


async def search_text(  # noqa: PLR0913 - they are the tool's
    tree: Tree,
    run: RunProgram,
    query: Text,
    path: Text = ".",
    *,
    regex: bool = False,
    case_sensitive: bool = False,
    include_globs: Globs = None,
    glob: str | None = None,
    exclude_globs: Globs = None,
    context_lines: Annotated[int, Field(ge=0, le=5)] = 0,
    max_results: Annotated[int, Field(ge=1, le=10_000)] = 1000,
    max_preview_bytes: Annotated[int, Field(ge=80, le=4096)] = 512,
    engine: Engine = "rg",
) -> Matches:
    """Find lines that hold a text, or match a regular expression; .gitignore is respected.

    ``max_preview_bytes`` counts one line, in bytes of UTF-8, marks included. For the globs see ``SearchQuery``.

    Raises:
        WorkspaceError: INVALID_ARGUMENT, also for an expression or a glob that the engine can't read; or as
            ``Tree.open_directory``, ``Tree.open_file``, ``RunProgram``.
    """
    includes, excludes = join_arguments(include_globs, glob), tuple(exclude_globs or ())
    _demand_sane(query, (*includes, *excludes))
    start, index = _start(tree, path, includes)
    ran = await run_engine(
        engine,
        tree,
        run,
        SearchQuery(
            expression=query,
            regex=regex,
            case_sensitive=case_sensitive,
            path=start,
            includes=includes,
            excludes=excludes,
            context=context_lines,
        ),
    )
    ending = _ending(ran)
    wanted = (ran.stdout, index, context_lines, max_results, max_preview_bytes)
    # What was found may be megabytes, and the index reads files; for less, to change threads would take longer.
    is_short = index is None and len(ran.stdout) <= _SHORT_BYTES
    chosen = choose_matches(*wanted) if is_short else await anyio.to_thread.run_sync(choose_matches, *wanted)
    cut = _cut_by(chosen, ending, max_results)
    return {
        "query": query,
        "matches": chosen.matches,
        "total_matches": chosen.total,
        "total_matches_exact": ending is None,
        "engine": engine,
        "truncated": cut is not None,
        "truncated_by": cut,
        "output_lines": chosen.lines,
        "output_bytes": chosen.size,
        "warnings": [*([_CUT[cut]] if cut else []), *ran.stderr.decode(errors="replace").splitlines()[:4]],
    }


def _demand_sane(query: str, globs: Sequence[str]) -> None:
    if not query or len(query) > MAX_QUERY or set(query) & set("\0\n"):
        raise WorkspaceError(
            "INVALID_ARGUMENT",
            f"a query is empty, longer than {MAX_QUERY} characters, or holds a NUL or the end of a line",
            hint="one line is searched at a time",
        )
    if len(globs) > MAX_GLOBS or any(not glob or len(glob) > MAX_GLOB or "\0" in glob for glob in globs):
        raise WorkspaceError(
            "INVALID_ARGUMENT",
            f"more than {MAX_GLOBS} globs, or one that is empty, longer than {MAX_GLOB} characters, or holds a NUL",
        )
    demand_unicode("".join((query, *globs)), "a query or a glob")


def _start(tree: Tree, asked: str, includes: Sequence[str]) -> tuple[str, IgnoreIndex | None]:
    """Where the search starts, and what leaves out some of its answer; a file that is named comes back in any case.

    ripgrep leaves out most of it by itself, and saves the time to search that. But a glob that includes a file makes it
    forget what is hidden and ignored, and before version 14 it forgets rules of directories above its start.
    """
    try:
        with tree.open_directory(asked) as opened:
            path = opened.path
    except WorkspaceError as error:
        if error.code != "NOT_A_DIRECTORY":
            raise
        with tree.open_file(asked) as opened:
            return opened.path, None
    trusted = path == "." and not includes
    return path, None if trusted else IgnoreIndex(tree, path, hidden="left out")


def _ending(ran: ProgramOutput) -> str | None:
    """Why the engine has not searched everything; None if it has.

    Raises:
        WorkspaceError: It has not searched at all.
    """
    if ran.timed_out:
        return "time"
    if ran.truncated:
        return "bytes"
    if _SUMMARY in ran.stdout[ran.stdout.rfind(b"\n", 0, -1) + 1 :]:
        return None
    words = ran.stderr.decode(errors="replace").strip()[:1000]
    if ran.exit_code == _REFUSED:
        raise WorkspaceError("INVALID_ARGUMENT", words, hint="without regex, a query is plain text")
    if ran.exit_code == _NOT_THERE:
        raise WorkspaceError("INTERNAL_ERROR", f"the search can't be run in the sandbox: {words}")
    return "engine"


def _cut_by(chosen: Chosen, ending: str | None, max_results: int) -> str | None:
    if len(chosen.matches) == max_results and (chosen.total > max_results or ending):
        return "results"
    return "bytes" if len(chosen.matches) < chosen.total else ending
