"""The tool ``git_blame``: who wrote which line of a file, and when."""

import re
from typing import Annotated, Final, NotRequired, TypedDict

from gloveport.model.constraints import Constraints
from gloveport.untrusted_text import shorten
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.spelling import check_path
from gloveport.workspace.git.invocation import GitAnswer, GitOutput, check_revision, pathspec, run_git
from gloveport.workspace.program import RunProgram
from gloveport.workspace.tool_types import Line, NextAction, Text, next_action

_BYTES: Final = 4 << 20
_MOST_TEXT: Final = 4096
"""The most characters of one line in an answer; longer lines are cut, with a mark."""

_TOO_SHORT: Final = re.compile(r"has only (\d+) lines?$")


class BlameLine(TypedDict):
    """One line, counted from 1; ``author_time`` in seconds since 1970. A commit of zeros means: not committed yet."""

    commit: str
    original_line: int
    line: int
    author: str
    author_mail: str
    author_time: int
    summary: str
    content: str


class Blame(GitAnswer):
    """The answer of ``git_blame``, as it is on the wire.

    ``end_line`` is the last line that came back. ``truncated``: there are more of what was asked for.
    """

    path: str
    rev: str | None
    start_line: int
    end_line: int
    max_lines: int
    lines: list[BlameLine]
    truncated: bool
    next_action: NotRequired[NextAction]


async def git_blame(
    run: RunProgram,
    path: Text,
    *,
    rev: str | None = None,
    start_line: Line = 1,
    end_line: Line | None = None,
    max_lines: Annotated[int, Constraints(ge=1, le=1000)] = 200,
) -> Blame:
    """Which commit each line comes from.

    The lines are those of the file in ``rev``, or in the work tree.

    Raises:
        WorkspaceError: NOT_FOUND where git knows no such file; IS_DIRECTORY; INVALID_ARGUMENT, also for a line past
            the end; GIT_ERROR; or as ``check_path``, ``RunProgram``.
    """
    path = check_path(path)
    if end_line is not None and end_line < start_line:
        raise WorkspaceError("INVALID_ARGUMENT", "end_line comes before start_line")
    if path == ".":
        raise WorkspaceError("IS_DIRECTORY", "the root of the workspace is a directory")
    last = start_line + max_lines - 1 if end_line is None else min(end_line, start_line + max_lines - 1)
    at = () if rev is None else (check_revision(rev),)
    ran = await _run_blame(run, path, start_line, last + 1, at, pathspec((path,)))
    lines = _lines(ran.stdout)
    line_count = last - start_line + 1
    more = len(lines) > line_count and last != end_line
    lines = lines[:line_count]
    answer: Blame = {
        "is_repo": ran.answer["is_repo"],
        "warnings": ran.answer["warnings"],
        "path": path,
        "rev": rev,
        "start_line": start_line,
        "end_line": start_line + len(lines) - 1,
        "max_lines": max_lines,
        "lines": lines,
        "truncated": more or ran.truncated,
    }
    if answer["truncated"] and lines:
        following = answer["end_line"] + 1
        answer["next_action"] = next_action(
            "git_blame", path=path, start_line=following, max_lines=max_lines, rev=rev, end_line=end_line
        )
    return answer


async def _run_blame(
    run: RunProgram, path: str, start: int, end: int, at: tuple[str, ...], limit: tuple[str, ...]
) -> GitOutput:
    arguments = ("blame", "--porcelain", "--no-textconv", "--encoding=UTF-8", f"-L{start},{end}", *at, *limit)
    try:
        return await run_git(run, *arguments, most_bytes=_BYTES)
    except WorkspaceError as error:
        words = str(error).split("\n")[0]
        if "no such path" in words:
            raise WorkspaceError("NOT_FOUND", f"git knows no file {path}", details={"path": path}) from error
        if found := _TOO_SHORT.search(words):
            raise WorkspaceError("INVALID_ARGUMENT", f"{path} has only {found[1]} lines") from error
        raise


def _lines(output: bytes) -> list[BlameLine]:
    """The complete lines of an output that may be cut. A commit's facts come only with its first line."""
    lines: list[BlameLine] = []
    commits: dict[str, dict[str, str]] = {}
    number, original, line = "", 0, 0
    for row in output.split(b"\n")[:-1]:
        text = row.decode(errors="replace")
        if text.startswith("\t"):
            commit = commits[number]
            lines.append(
                {
                    "commit": number,
                    "original_line": original,
                    "line": line,
                    "author": commit.get("author", ""),
                    "author_mail": commit.get("author-mail", "").removeprefix("<").removesuffix(">"),
                    "author_time": int(commit.get("author-time", "0")),
                    "summary": commit.get("summary", ""),
                    "content": shorten(text[1:], _MOST_TEXT),
                }
            )
            number = ""
        elif not number:
            number, was, now = text.split(" ")[:3]
            original, line = int(was), int(now)
            commits.setdefault(number, {})
        else:
            name, _, value = text.partition(" ")
            commits[number][name] = shorten(value, _MOST_TEXT)
    return lines
