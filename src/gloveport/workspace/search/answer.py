"""Search, and what of the matches comes back: a bounded number of them, with previews of bounded size."""

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NotRequired, TypedDict

from gloveport.errors import WorkspaceError
from gloveport.workspace.running import Ran, Run
from gloveport.workspace.search.engines import MAX_GLOB, MAX_GLOBS, SECONDS, Engine, Question, ask
from gloveport.workspace.tree import Tree, shown

MAX_OUTPUT_BYTES: Final = 1 << 21
"""Of the previews and lines of one answer."""

MAX_QUERY: Final = 10_000
_MATCH: Final = b'{"type":"match"'
_CONTEXT: Final = b'{"type":"context"'
_SUMMARY: Final = b'"type":"summary"'
_REFUSED: Final = 2
_NOT_THERE: Final = 127
_MARK: Final = "…"
_MARK_BYTES: Final = len(_MARK.encode())
_CUT: Final = {
    "results": "result limit reached",
    "bytes": "byte limit reached",
    "time": f"the search was ended after {SECONDS:.0f} s",
    "engine": "the search ended early",
}


class Match(TypedDict):
    """A line that matches.

    ``line`` and ``column`` count from 1; a column is a character (a code point) of the line, where the first match in
    it begins. A preview that is cut holds that place.
    """

    path: str
    line: int
    column: int
    preview: str
    before: list[str]
    after: list[str]
    preview_truncated: NotRequired[bool]
    preview_truncated_by: NotRequired[str]


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


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of a file as the engine tells it; ``place`` are the bytes of its first match, where it has one."""

    path: str
    number: int
    text: bytes
    place: tuple[int, int] | None


async def search_text(
    tree: Tree,
    run: Run,
    question: Question,
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
            ``Tree.directory``, ``Tree.file``, ``Run``.
    """
    _demand_sane(question)
    question = _resolved(tree, question)
    ran = await ask(engine, tree, run, question)
    exact = _is_complete(ran)
    rows = list(_rows(ran.stdout, max_results, question.context))
    matches: list[Match] = []
    size = lines = 0
    for at, row in enumerate(rows):
        if row.place is None or len(matches) == max_results:
            continue
        match, its_size, its_lines = _match(rows, at, row.place, question.context, max_preview_bytes)
        if size + its_size > MAX_OUTPUT_BYTES:
            break
        matches.append(match)
        size, lines = size + its_size, lines + its_lines
    total = ran.stdout.count(b"\n" + _MATCH) + ran.stdout.startswith(_MATCH)
    cut = _cut_by(ran, len(matches), total, max_results, exact=exact)
    return {
        "query": question.expression,
        "matches": matches,
        "total_matches": total,
        "total_matches_exact": exact,
        "engine": engine,
        "truncated": cut is not None,
        "truncated_by": cut,
        "output_lines": lines,
        "output_bytes": size,
        "warnings": [*([_CUT[cut]] if cut else []), *ran.stderr.decode(errors="replace").splitlines()[:4]],
    }


def _demand_sane(question: Question) -> None:
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


def _resolved(tree: Tree, question: Question) -> Question:
    try:
        with tree.directory(question.path) as opened:
            path = opened.path
    except WorkspaceError as error:
        if error.code != "NOT_A_DIRECTORY":
            raise
        with tree.file(question.path) as opened:
            path = opened.path
    return replace(question, path=path)


def _is_complete(ran: Ran) -> bool:
    """Whether the engine has searched everything.

    Raises:
        WorkspaceError: It has not searched at all.
    """
    if ran.truncated or ran.timed_out:
        return False
    if _SUMMARY in ran.stdout[ran.stdout.rfind(b"\n", 0, -1) + 1 :]:
        return True
    words = ran.stderr.decode(errors="replace").strip()[:1000]
    if ran.exit_code == _REFUSED:
        raise WorkspaceError("INVALID_ARGUMENT", words, hint="without regex, a query is plain text")
    if ran.exit_code == _NOT_THERE:
        raise WorkspaceError("INTERNAL_ERROR", f"the search can't be run in the sandbox: {words}")
    return False


def _cut_by(ran: Ran, came: int, total: int, max_results: int, *, exact: bool) -> str | None:
    if came == max_results and (came < total or not exact):
        return "results"
    if came < total or ran.truncated:
        return "bytes"
    if ran.timed_out:
        return "time"
    return None if exact else "engine"


def _rows(output: bytes, max_results: int, context: int) -> Iterator[_Row]:
    """The lines that an engine tells of, until there are enough; the last one may be cut."""
    enough = matches = 0
    for record in output.split(b"\n")[:-1]:
        is_match = record.startswith(_MATCH)
        if not is_match and not record.startswith(_CONTEXT):
            continue
        data = json.loads(record)["data"]
        first = data["submatches"][:1]
        yield _Row(
            shown(_bytes(data["path"]).removeprefix(b"./")),
            data["line_number"],
            _bytes(data["lines"]).removesuffix(b"\n").removesuffix(b"\r"),
            (first[0]["start"], first[0]["end"]) if first else None if not is_match else (0, 0),
        )
        matches += is_match
        enough += matches >= max_results
        if enough > context:
            return


def _bytes(told: dict[str, str]) -> bytes:
    """Text, or Base64 of what is no UTF-8."""
    return told["text"].encode() if "text" in told else base64.b64decode(told["bytes"])


def _match(
    rows: Sequence[_Row], at: int, place: tuple[int, int], context: int, max_bytes: int
) -> tuple[Match, int, int]:
    """One match, its size in bytes and its number of lines."""
    row = rows[at]
    preview, is_cut = _preview(row.text, place, max_bytes)
    before = [_preview(row.text, (0, 0), max_bytes)[0] for row in _beside(rows, at, range(-context, 0))]
    after = [_preview(row.text, (0, 0), max_bytes)[0] for row in _beside(rows, at, range(1, context + 1))]
    match: Match = {
        "path": row.path,
        "line": row.number,
        "column": len(row.text[: place[0]].decode(errors="replace")) + 1,
        "preview": preview,
        "before": before,
        "after": after,
    }
    if is_cut:
        match |= {"preview_truncated": True, "preview_truncated_by": "bytes"}
    return match, sum(len(text.encode()) for text in (preview, *before, *after)), 1 + len(before) + len(after)


def _beside(rows: Sequence[_Row], at: int, steps: range) -> Iterator[_Row]:
    """The lines so many steps away, as far as they were told. A line beside a match may match as well."""
    for step in steps:
        if 0 <= at + step < len(rows):
            other = rows[at + step]
            if other.path == rows[at].path and other.number == rows[at].number + step:
                yield other


def _preview(line: bytes, place: tuple[int, int], max_bytes: int) -> tuple[str, bool]:
    """The line, or the part of it around a place, with marks where it is cut; and whether it is."""
    text = line.decode(errors="replace")
    whole = text.encode()
    if len(whole) <= max_bytes:
        return text, False
    begin, end = (len(line[:byte].decode(errors="replace").encode()) for byte in place)
    room = max_bytes - _MARK_BYTES
    if end <= room:
        return whole[:room].decode(errors="ignore") + _MARK, True
    room -= _MARK_BYTES
    start = min(max(0, begin - room // 4), len(whole) - room)
    part = whole[start : start + room].decode(errors="ignore")
    return f"{_MARK}{part}{_MARK if start + room < len(whole) else ''}", True
