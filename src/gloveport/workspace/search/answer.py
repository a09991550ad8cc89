"""One search, from its question to what comes back."""

from dataclasses import replace
from typing import Final, TypedDict

import anyio.to_thread

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.program import ProgramOutput, RunProgram
from gloveport.workspace.search.engines import MAX_GLOB, MAX_GLOBS, SECONDS, Engine, SearchQuery, ask
from gloveport.workspace.search.matches import Chosen, Match, choose
from gloveport.workspace.search.sieve import Sieve

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


class Matches(TypedDict):
    """The answer of ``search_text``, as it is on the wire.

    ``total_matches`` counts lines that match, and is the least number of them where it is not exact. ``truncated_by``
    is results, bytes, time, or engine (it ran out of memory, say). ``output_lines`` counts lines of the context too.
    """

    query: str
    matches: list[Match]
    total_matches: int
    total_matches_exact: bool
    engine: str
    truncated: bool
    truncated_by: str | None
    output_lines: int
    output_bytes: int
    warnings: list[str]


async def search_text(
    tree: Tree,
    run: RunProgram,
    question: SearchQuery,
    *,
    engine: Engine = "rg",
    max_results: int = 1000,
    max_preview_bytes: int = 512,
) -> Matches:
    """Find lines.

    Args:
        tree: The workspace.
        run: What runs the engine.
        question: What to look for. Its path may lead through links.
        engine: ``rg`` where ripgrep is in the sandbox.
        max_results: How many matches come back.
        max_preview_bytes: Of one line, in bytes of UTF-8, marks included.

    Raises:
        WorkspaceError: INVALID_ARGUMENT, also for an expression or a glob that the engine can't read; or as
            ``Tree.directory``, ``Tree.file``, ``RunProgram``.
    """
    _demand_sane(question)
    question, sieve = _start(tree, question)
    ran = await ask(engine, tree, run, question)
    ending = _ending(ran)
    wanted = (ran.stdout, sieve, question.context, max_results, max_preview_bytes)
    # What was found may be megabytes, and the sieve reads files; for less, to change threads would take longer.
    is_short = sieve is None and len(ran.stdout) <= _SHORT_BYTES
    chosen = choose(*wanted) if is_short else await anyio.to_thread.run_sync(choose, *wanted)
    cut = _cut_by(chosen, ending, max_results)
    return {
        "query": question.expression,
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


def _demand_sane(question: SearchQuery) -> None:
    query, globs = question.expression, (*question.includes, *question.excludes)
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
    try:
        "".join((query, *globs)).encode()
    except UnicodeEncodeError as error:
        raise WorkspaceError("INVALID_ARGUMENT", "a query or a glob holds half of a surrogate pair") from error


def _start(tree: Tree, question: SearchQuery) -> tuple[SearchQuery, Sieve | None]:
    """Where the search starts, and what of its answer passes; a file that is named does, whatever it is."""
    try:
        with tree.directory(question.path) as opened:
            path = opened.path
    except WorkspaceError as error:
        if error.code != "NOT_A_DIRECTORY":
            raise
    else:
        trusted = path == "." and not question.includes
        return replace(question, path=path), None if trusted else Sieve(tree, path)
    with tree.file(question.path) as opened:
        return replace(question, path=opened.path), None


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
