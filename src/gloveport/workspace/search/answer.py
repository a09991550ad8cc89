"""The tool ``search_text``: one search, from its arguments to its answer."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Final, NotRequired

from gloveport.model.constraints import Constraints
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.file_threads import FILE_SEARCHES
from gloveport.workspace.files.gitignore import NAMES, IgnoreIndex
from gloveport.workspace.files.spelling import is_utf8, raw, spell_path
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.git.tracked import find_hidden_files
from gloveport.workspace.program import ProgramOutput, RunProgram
from gloveport.workspace.search.engines import (
    MAX_GLOB,
    MAX_GLOBS,
    SECONDS,
    Cut,
    Engine,
    SearchQuery,
    choose_files,
    run_engine,
)
from gloveport.workspace.search.file_types import find_globs
from gloveport.workspace.search.matches import Chosen, FileMatches, Match, MatchSelection, choose_matches, count_matches
from gloveport.workspace.tool_types import Excerpt, Globs, Text, demand_unicode, join_arguments

MAX_QUERY: Final = 10_000
"""Characters."""

_MOST_TRACKED: Final = 1000
_TRACKED_BYTES: Final = 1 << 16
"""The most bytes of their names, which are passed as arguments."""

_SUMMARY: Final = b'"type":"summary"'
_REFUSED: Final = 2
_NOT_THERE: Final = 127
_SHORT_BYTES: Final = 64 << 10
_CUT: Final = {
    "results": "result limit reached",
    "bytes": "byte limit reached",
    "time": f"the search was ended after {SECONDS:.0f} s",
    "engine": "the search ended early",
    "names": "there are too many files: not all were searched",
}


class Matches(Excerpt):
    """The answer of ``search_text``, as it is on the wire.

    ``total_matches`` counts matching lines, and is a lower bound where it is not exact. ``truncated_by`` is results,
    bytes, time, names (of files), or engine (it ran out of memory, say). ``output_lines`` counts context lines too.
    ``files`` replace the matches if only files were requested; ``next_offset`` is set if there are more.
    """

    query: str
    matches: list[Match]
    files: NotRequired[list[FileMatches]]
    next_offset: NotRequired[int]
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
    multiline: bool = False,
    include_globs: Globs = None,
    glob: str | None = None,
    exclude_globs: Globs = None,
    file_type: Annotated[str | None, Constraints(pattern=r"^[A-Za-z0-9+_-]{1,32}$")] = None,
    context_lines: Annotated[int, Constraints(ge=0, le=5)] = 0,
    max_results: Annotated[int, Constraints(ge=1, le=10_000)] = 1000,
    max_preview_bytes: Annotated[int, Constraints(ge=80, le=4096)] = 512,
    offset: Annotated[int, Constraints(ge=0, le=1_000_000)] = 0,
    files_only: bool = False,
    include_hidden: bool = False,
    include_ignored: bool = False,
    engine: Engine = "rg",
    caller: str = "",
) -> Matches:
    """Find lines that hold a text, or match a regular expression; .gitignore is respected. `files_only` counts the
    lines of each file; `file_type` is a language or an extension.

    ``max_preview_bytes`` counts one line, in bytes of UTF-8, marks included. For the globs see ``SearchQuery``.

    Raises:
        WorkspaceError: INVALID_ARGUMENT, also for an expression or a glob that the engine can't read; or as
            ``Tree.open_directory``, ``Tree.open_file``, ``RunProgram``.
    """
    includes, excludes = join_arguments(include_globs, glob), tuple(exclude_globs or ())
    _demand_sane(query, (*includes, *excludes), multiline=multiline)
    names = find_globs(file_type) if file_type else ()
    start, leaves_out = _start(tree, path, (*includes, *names), hidden=include_hidden, ignored=include_ignored)
    question = SearchQuery(
        expression=query,
        regex=regex,
        case_sensitive=case_sensitive,
        path=start,
        includes=includes,
        excludes=excludes,
        multiline=multiline,
        names=names,
        context=0 if files_only else context_lines,
        hidden=include_hidden,
        ignored=include_ignored,
    )
    tracked_paths, tracked_cut = await _find_tracked(tree, run, question, caller)
    ran, cut = await run_engine(engine, tree, run, question, tracked_paths, caller)
    ending = _ending(ran) or cut or tracked_cut
    leaves_out = _spare_tracked(leaves_out, tracked_paths)
    selection = MatchSelection(leaves_out, context_lines, offset, max_results, max_preview_bytes)
    choose = partial(_files_answer if files_only else _lines_answer, query, engine, ran, selection, ending)
    # The findings may be megabytes, and the index reads files; for less, a change of threads would take longer.
    is_short = leaves_out is None and len(ran.stdout) <= _SHORT_BYTES
    return choose() if is_short else await FILE_SEARCHES.run(caller, choose)


async def _find_tracked(
    tree: Tree, run: RunProgram, question: SearchQuery, caller: str
) -> tuple[list[bytes], Cut | None]:
    """Files that git tracks, but the search has left out because of their names or a .gitignore; and why these are not
    all.
    """
    if question.hidden and question.ignored:
        return [], None
    if not (found := await find_hidden_files(tree, run)):
        return [], None
    return await FILE_SEARCHES.run(caller, _choose_tracked, tree, question, found)


def _choose_tracked(tree: Tree, question: SearchQuery, found: Sequence[bytes]) -> tuple[list[bytes], Cut | None]:
    start = "" if question.path == "." else f"{question.path}/"
    ignores = IgnoreIndex(tree, question.path, hidden="shown" if question.hidden else "left out")

    def is_left_out(path: str) -> bool:
        if not question.hidden and _is_hidden(start, path):
            return True
        # For most files the name decides: reading rules takes longer.
        return not question.ignored and (
            not NAMES.isdisjoint(raw(path.removeprefix(start)).split(b"/")) or ignores.leaves_out(path)
        )

    chosen: list[bytes] = []
    size = 0
    names, cut = choose_files(question, found)
    for name in names:
        path = spell_path(name)
        if not is_left_out(path) or not is_utf8(name):  # other bytes can't be passed as an argument
            continue
        if len(chosen) == _MOST_TRACKED or size > _TRACKED_BYTES:
            return chosen, "names"
        with suppress(WorkspaceError), tree.open_file(path) as opened:
            if raw(opened.path) == name:  # and is reached by no link
                chosen.append(name)
                size += len(name)
    return chosen, cut


def _spare_tracked(
    leaves_out: Callable[[str], bool] | None, tracked_paths: Sequence[bytes]
) -> Callable[[str], bool] | None:
    if leaves_out is None or not tracked_paths:
        return leaves_out
    paths = {spell_path(name) for name in tracked_paths}
    return lambda path: path not in paths and leaves_out(path)


def _lines_answer(
    query: str, engine: Engine, ran: ProgramOutput, selection: MatchSelection, ending: str | None
) -> Matches:
    chosen = choose_matches(ran.stdout, selection)
    end = selection.offset + len(chosen.matches)
    cut = "results" if len(chosen.matches) == selection.max_results and (chosen.total > end or ending) else None
    cut = cut or ("bytes" if end < chosen.total else ending)
    answer = _make_answer(query, engine, ran, chosen, cut, is_exact=ending is None)
    if end < chosen.total:
        answer["next_offset"] = end
    return answer


def _files_answer(
    query: str, engine: Engine, ran: ProgramOutput, selection: MatchSelection, ending: str | None
) -> Matches:
    found = count_matches(ran.stdout, selection)
    files = found[selection.offset : selection.offset + selection.max_results]
    end = selection.offset + len(files)
    cut = "results" if end < len(found) else ending
    size = sum(len(file["path"].encode()) for file in files)
    chosen = Chosen([], sum(file["lines"] for file in found), len(files), size)
    answer = _make_answer(query, engine, ran, chosen, cut, is_exact=ending is None)
    answer["files"] = files
    if end < len(found):
        answer["next_offset"] = end
    return answer


def _make_answer(
    query: str, engine: Engine, ran: ProgramOutput, chosen: Chosen, cut: str | None, *, is_exact: bool
) -> Matches:
    return {
        "query": query,
        "matches": chosen.matches,
        "total_matches": chosen.total,
        "total_matches_exact": is_exact,
        "engine": engine,
        "truncated": cut is not None,
        "truncated_by": cut,
        "output_lines": chosen.lines,
        "output_bytes": chosen.size,
        "warnings": [*([_CUT[cut]] if cut else []), *ran.stderr.decode(errors="replace").splitlines()[:4]],
    }


def _demand_sane(query: str, globs: Sequence[str], *, multiline: bool) -> None:
    if not query or len(query) > MAX_QUERY or set(query) & set("\0" if multiline else "\0\n"):
        raise WorkspaceError(
            "INVALID_ARGUMENT",
            f"a query is empty, longer than {MAX_QUERY} characters, or holds a NUL or the end of a line",
            hint="one line is searched at a time, but for multiline=true",
        )
    if len(globs) > MAX_GLOBS or any(not glob or len(glob) > MAX_GLOB or "\0" in glob for glob in globs):
        raise WorkspaceError(
            "INVALID_ARGUMENT",
            f"more than {MAX_GLOBS} globs, or one that is empty, longer than {MAX_GLOB} characters, or holds a NUL",
        )
    demand_unicode("".join((query, *globs)), "a query or a glob")


def _start(
    tree: Tree, requested_path: str, includes: Sequence[str], *, hidden: bool, ignored: bool
) -> tuple[str, Callable[[str], bool] | None]:
    """The start of the search, and a filter for its findings; a named file is always included.

    ripgrep skips most ignored files by itself, which saves time. But a glob that includes a file, or a kind of files,
    makes it search hidden and ignored files too, and before version 14 it ignores rules of directories above its start.
    """
    try:
        with tree.open_directory(requested_path) as opened:
            path = opened.path
    except WorkspaceError as error:
        if error.code != "NOT_A_DIRECTORY":
            raise
        with tree.open_file(requested_path) as opened:
            return opened.path, None
    if ignored:
        return path, None if hidden or not includes else partial(_is_hidden, "" if path == "." else f"{path}/")
    if path == "." and not includes:
        return path, None
    return path, IgnoreIndex(tree, path, hidden="shown" if hidden else "left out").leaves_out


def _is_hidden(start: str, path: str) -> bool:
    """Whether a name in a path, below the start of the search, begins with a dot."""
    return any(name.startswith(".") for name in path.removeprefix(start).split("/"))


def _ending(ran: ProgramOutput) -> str | None:
    """Why the engine's search is incomplete; None if it is complete.

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
