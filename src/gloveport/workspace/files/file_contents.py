"""The tool ``read_file``: lines of one or several files, where one error does not fail the others; documents as
text.
"""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Final, Literal, NotRequired, TypeAlias, TypedDict

from msgspec.structs import replace

from gloveport.model.constraints import Constraints
from gloveport.model.json_value import JsonValue
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.documents import DocumentRead, find_document, read_document
from gloveport.workspace.files.file_threads import FILE_READS, LARGE_READS
from gloveport.workspace.files.line_reader import LineRange, TextRead, find_end, read_lines
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.program import RunProgram
from gloveport.workspace.tool_types import Bytes, Line, NextAction, Text, next_action

MOST_FILES: Final = 20
SMALL_FILE_BYTES: Final = 1 << 20
"""A file of up to this size does not wait for larger ones."""

_WITH_LINES: Final = re.compile(r"(.+):([1-9][0-9]{0,8})-([1-9][0-9]{0,8})", re.DOTALL)

Paths: TypeAlias = Annotated[list[Text] | None, Constraints(min_length=1, max_length=MOST_FILES)]
Pages: TypeAlias = Annotated[str | None, Constraints(pattern=r"^[0-9]{1,6}(-[0-9]{1,6})?$")]


ReadOne: TypeAlias = Callable[[str, LineRange], Awaitable[TextRead | DocumentRead]]


class FailedRead(TypedDict):
    """The answer for a file that can't be read."""

    path: str
    error: dict[str, JsonValue]


class SeveralRead(TypedDict):
    """The answer for several files, in the requested order."""

    files: list[TextRead | DocumentRead | FailedRead]
    output_bytes: int
    next_action: NotRequired[NextAction]
    """For files that ``max_bytes`` left no room for."""


async def read_file(  # noqa: PLR0913 - they are the tool's
    tree: Tree,
    run: RunProgram,
    path: Text | None = None,
    *,
    start_line: Line = 1,
    end_line: Line | None = None,
    max_lines: Line | None = None,
    max_bytes: Bytes = 131_072,
    encoding: Literal["utf-8"] = "utf-8",  # noqa: ARG001 - the only one
    line_numbers: bool = False,
    paths: Paths = None,
    pages: Pages = None,
    raw: bool = False,
    caller: str = "",
) -> TextRead | DocumentRead | SeveralRead:
    """Read lines of a text file, or of several (paths: `a.py`, `b.py:10-40`), with the revision that edits by line
    name. Of a PDF or a notebook (.ipynb) its text, unless raw.

    At most ``MAX_LINES`` whole lines of each, and ``max_bytes`` bytes of UTF-8 in all. ``pages`` are of a PDF, or cells
    of a notebook. A file whose own name ends like ``:10-40`` is read by ``path``.

    Raises:
        WorkspaceError: INVALID_ARGUMENT; or of one file as ``read_lines``, ``read_document``.
    """
    lines = LineRange(
        start_line=start_line,
        end_line=find_end(start_line, end_line, max_lines),
        max_bytes=max_bytes,
        line_numbers=line_numbers,
    )

    async def read_one(path: str, lines: LineRange) -> TextRead | DocumentRead:
        kind = None if raw else find_document(path)
        if (
            kind is not None
            and (document := await read_document(tree, run, path, kind, lines, pages, caller)) is not None
        ):
            return document
        if pages is not None:
            raise WorkspaceError("INVALID_ARGUMENT", f"pages: {path} has none; start_line and end_line choose lines")
        try:
            return await FILE_READS.run(partial(read_lines, tree, path, lines, file_bytes=SMALL_FILE_BYTES))
        except WorkspaceError as error:
            if error.code != "OUTPUT_TOO_LARGE":
                raise
        return await LARGE_READS.run(caller, read_lines, tree, path, lines)

    if paths is None:
        if path is None:
            raise WorkspaceError("INVALID_ARGUMENT", "path: is missing", hint="path names a file, paths several")
        return await read_one(path, lines)
    if path is not None:
        raise WorkspaceError("INVALID_ARGUMENT", "path and paths: give one of the two")
    return await _read_several(read_one, paths, lines)


async def _read_several(read_one: ReadOne, paths: list[str], lines: LineRange) -> SeveralRead:
    files: list[TextRead | DocumentRead | FailedRead] = []
    room, is_cut, unread = lines.max_bytes, False, list(paths)
    while unread and room > 0 and not is_cut:
        path, line_range = _split_lines(unread.pop(0), lines)
        try:
            read = await read_one(path, replace(line_range, max_bytes=room))
        except WorkspaceError as error:
            files.append(FailedRead(path=path, error=_describe_error(error)))
        else:
            files.append(read)
            room -= read["output_bytes"]
            is_cut = read["truncated_by"] == "bytes"
    answer = SeveralRead(files=files, output_bytes=lines.max_bytes - room)
    if unread:
        numbers = True if lines.line_numbers else None
        answer["next_action"] = next_action(
            "read_file", paths=[*unread], max_bytes=lines.max_bytes, line_numbers=numbers
        )
    return answer


def _split_lines(path: str, lines: LineRange) -> tuple[str, LineRange]:
    """A path without its line suffix, and the suffix's lines; without a suffix, the lines that are wanted of all."""
    if not (found := _WITH_LINES.fullmatch(path)):
        return path, lines
    path, first, last = found.groups()
    return path, replace(lines, start_line=int(first), end_line=int(last))


def _describe_error(error: WorkspaceError) -> dict[str, JsonValue]:
    hint: dict[str, JsonValue] = {"retry_hint": error.hint} if error.hint else {}
    return {"code": error.code, "message": str(error.args[0]), **hint}
