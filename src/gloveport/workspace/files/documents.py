"""Reads PDFs and notebooks as text, extracted in a sandbox: documents are hostile, and parsers have bugs."""

import json
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, TypedDict

from anyio import to_thread

from gloveport.model import GUEST
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.descriptors import read_all
from gloveport.workspace.files.file_threads import HELD_FILES
from gloveport.workspace.files.line_reader import LineExcerpt, LineRange, select_lines
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.program import ProgramOutput, RunProgram
from gloveport.workspace.tool_types import next_action

DocumentKind: TypeAlias = Literal["pdf", "notebook"]

MAX_DOCUMENT_BYTES: Final = 32 << 20

_TEXT_BYTES: Final = 512 << 10
"""Some 200 pages: longer text would be extracted anew for each part that is read."""

_HEAD_BYTES: Final = 256
_SECONDS: Final = 10.0
_TO_TEXT: Final = ("python3", "-I", "-B", f"{GUEST}/python/document_text.py")
_KINDS: Final[Mapping[str, DocumentKind]] = {".pdf": "pdf", ".ipynb": "notebook"}
_PARTS: Final[Mapping[DocumentKind, str]] = {"pdf": "pages", "notebook": "cells"}
_NO_PYPDF, _LOCKED, _NO_DOCUMENT = 3, 4, 5
_WHY: Final = {
    _NO_PYPDF: "there is no pypdf in the sandbox that could read it",
    _LOCKED: "it needs a password, or a cipher that is not known here",
}


class DocumentRead(LineExcerpt):
    """The answer of ``read_file`` for a document: lines of its text. It has no revision: this text can't be edited."""

    document: DocumentKind
    pages: int
    """How many pages it has; for a notebook, cells."""
    page_range: str
    """The pages that these lines come from."""


class _Head(TypedDict):
    pages: int
    last: int


def find_document(path: str) -> DocumentKind | None:
    """The kind of document, by its path."""
    return next((kind for suffix, kind in _KINDS.items() if path.lower().endswith(suffix)), None)


async def read_document(
    tree: Tree,
    run: RunProgram,
    path: str,
    kind: DocumentKind,
    lines: LineRange,
    pages: str | None,
    caller: str,
) -> DocumentRead | None:
    """Read lines of a document's text, when it is the turn of ``caller``; None if the file is no such document.
    ``pages`` are the first and the last, as in ``3-5``, or one; None for all. Cells of a notebook likewise.

    Raises:
        WorkspaceError: OUTPUT_TOO_LARGE, BINARY_FILE where it can't be read; INVALID_ARGUMENT where it has no such
            pages; or as ``Tree.open_file``, ``RunProgram``.
    """
    first, last = _page_range(pages)
    async with HELD_FILES.place(caller):
        path, data = await to_thread.run_sync(_read_whole, tree, path)
        if kind == "pdf" and b"%PDF-" not in data[:1024]:
            return None
        argv = (*_TO_TEXT, kind, str(_TEXT_BYTES), str(first), str(last))
        ran = await run(argv, stdin=data, seconds=_SECONDS, most_bytes=_TEXT_BYTES + _HEAD_BYTES)
    if ran.exit_code == _NO_DOCUMENT and kind == "notebook":
        return None
    head, text = _parse(path, kind, ran)
    if first > max(1, head["pages"]):
        raise WorkspaceError("INVALID_ARGUMENT", f"pages: {path} has {head['pages']} {_PARTS[kind]}")
    return _describe(path, kind, lines, (first, min(last or head["pages"], head["pages"])), head, text)


def _page_range(pages: str | None) -> tuple[int, int]:
    if pages is None:
        return 1, 0
    first, _, last = pages.partition("-")
    if int(first) < 1 or int(last or first) < int(first):
        raise WorkspaceError("INVALID_ARGUMENT", "pages: should be as in 3-5, from 1")
    return int(first), int(last or first)


def _read_whole(tree: Tree, path: str) -> tuple[str, bytes]:
    with tree.open_file(path) as opened:
        is_small = opened.status.st_size <= MAX_DOCUMENT_BYTES
        data = read_all(opened.descriptor, MAX_DOCUMENT_BYTES) if is_small else None
    if data is None:
        raise WorkspaceError(
            "OUTPUT_TOO_LARGE",
            f"{opened.path} has more than {MAX_DOCUMENT_BYTES} bytes",
            hint="take a part of it by a command: qpdf, pdftotext, jq",
            details={"path": opened.path},
        )
    return opened.path, data


def _parse(path: str, kind: DocumentKind, ran: ProgramOutput) -> tuple[_Head, bytes]:
    """Parse the program's output. A document may have taken the program over: the text is as hostile as any file's."""
    if ran.exit_code == 0:
        line, _, text = ran.stdout.partition(b"\n")
        try:
            parsed = json.loads(line)
            return _Head(pages=int(parsed["pages"]), last=int(parsed["last"])), text.decode(errors="replace").encode()
        except (ValueError, TypeError, KeyError, RecursionError):
            pass
    why = "it took too long" if ran.timed_out else _WHY.get(ran.exit_code or 0, "it is damaged, or too large")
    raise WorkspaceError(
        "BINARY_FILE",
        f"{path} can't be read as a {kind}: {why}",
        hint="raw=true reads its own lines" if kind == "notebook" else "exec_command: pdftotext, or pages=1 for less",
    )


def _describe(
    path: str, kind: DocumentKind, lines: LineRange, page_span: tuple[int, int], head: _Head, text: bytes
) -> DocumentRead:
    read = select_lines(path, text, lines)
    first, last = page_span
    page_range = f"{first}-{head['last']}"
    answer: DocumentRead = {**read, "document": kind, "pages": head["pages"], "page_range": page_range}
    if read["next_start_line"] is not None:
        numbers = True if lines.line_numbers else None
        answer["next_action"] = next_action(
            "read_file",
            path=path,
            start_line=read["next_start_line"],
            max_bytes=lines.max_bytes,
            line_numbers=numbers,
            pages=page_range,
        )
    elif head["last"] < last:
        answer["truncated"], answer["truncated_by"] = True, "bytes"
        answer["next_action"] = next_action("read_file", path=path, pages=f"{head['last'] + 1}-{last}")
    return answer
