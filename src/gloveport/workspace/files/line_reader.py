"""Reads lines of a text file, and the revision of the content that they come from.

The file is read once, from its beginning to its end, in pieces: the revision, the count of lines and the chosen lines
come from one pass, so they belong together even during concurrent writes. Only the chosen lines are kept, whatever the
size of the file and of its lines. The work on each piece is done in C; hashing lets other threads run.
"""

import hashlib
import os
from codecs import utf_8_decode
from collections.abc import Iterator
from typing import Final, NotRequired

from msgspec import Struct, field

from gloveport.patch_text.text import count_lines
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.tree import Opened, Tree
from gloveport.workspace.tool_types import Excerpt, NextAction, next_action

MAX_LINES: Final = 2000
"""The most lines of one answer, whatever was requested."""

MAX_FILE_BYTES: Final = 1 << 30
"""The largest file: about two seconds of hashing. Without a bound a sparse file of 8 TiB would take hours."""

_LONGEST_CHARACTER: Final = 4
_PIECE: Final = 1 << 18
_LOOKED_AT: Final = 4096
"""A NUL within so many first bytes makes a file binary."""


class LineExcerpt(Excerpt):
    """Lines of a text, as they are on the wire. They count from 1; a last line may lack its newline."""

    path: str
    content: str
    start_line: int
    end_line: int
    total_lines: int
    total_bytes: int
    next_start_line: int | None
    warnings: list[str]
    next_action: NotRequired[NextAction]


class TextRead(LineExcerpt):
    """The answer of ``read_file``, as it is on the wire."""

    encoding: str
    revision: str
    revision_algorithm: str
    max_bytes: int
    bytes_read: int
    first_line_exceeds_limit: bool


class LineRange(Struct, frozen=True, kw_only=True):
    """The requested lines, and their format.

    Attributes:
        start_line: The first, from 1.
        end_line: The last; None for the end.
        max_bytes: The most bytes of UTF-8 to return.
        line_numbers: Whether each line starts with its number and a tab.
    """

    start_line: int = 1
    end_line: int | None = None
    max_bytes: int = 131_072
    line_numbers: bool = False


def read_lines(tree: Tree, path: str, lines: LineRange, *, file_bytes: int = MAX_FILE_BYTES) -> TextRead:
    """Read lines of a text file: at most ``MAX_LINES`` whole ones; of a longer first line its beginning.

    Raises:
        WorkspaceError: BINARY_FILE; UNSUPPORTED_ENCODING where the chosen lines are not UTF-8, whatever the others are;
            OUTPUT_TOO_LARGE for a file of more than ``file_bytes``; or as ``Tree.open_file``.
    """
    with tree.open_file(path) as opened:
        scan = _Scan(lines.start_line, lines.max_bytes)
        _scan_all(opened, scan, file_bytes)
    excerpt = _excerpt(opened.path, scan, lines)
    return {
        **excerpt,
        "encoding": "utf-8",
        "revision": scan.digest.hexdigest(),
        "revision_algorithm": "sha256",
        "max_bytes": scan.max_bytes,
        "bytes_read": excerpt["output_bytes"],
        "first_line_exceeds_limit": excerpt["truncated_by"] == "bytes" and not excerpt["content"].endswith("\n"),
    }


def select_lines(path: str, text: bytes, lines: LineRange) -> LineExcerpt:
    """The same lines of a given text.

    Raises:
        WorkspaceError: UNSUPPORTED_ENCODING.
    """
    scan = _Scan(lines.start_line, lines.max_bytes)
    if text:
        scan.take(text)
    return _excerpt(path, scan, lines)


def find_end(start_line: int, end_line: int | None, max_lines: int | None) -> int | None:
    """The last requested line, from its number or from the number of lines.

    Raises:
        WorkspaceError: INVALID_ARGUMENT if the two contradict each other.
    """
    if max_lines is None:
        return end_line
    end = start_line + max_lines - 1
    if end_line not in {None, end}:
        raise WorkspaceError(
            "INVALID_ARGUMENT", "end_line and max_lines select different ranges", hint="give one of the two"
        )
    return end


class _Scan(Struct):
    """One pass over a file."""

    start_line: int
    max_bytes: int
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    total_bytes: int = 0
    newlines: int = 0
    last: int = 0x0A
    window: bytearray = field(default_factory=bytearray)
    """Text from the start line on, with one byte more than may be returned, which tells that there is more."""

    @property
    def total_lines(self) -> int:
        return self.newlines + (self.last != 0x0A)

    def take(self, piece: bytes) -> None:
        self.digest.update(piece)
        found = piece.count(b"\n")
        room = self.max_bytes + 1 - len(self.window)
        before = self.start_line - 1 - self.newlines  # newlines of this piece before the start line
        if room > 0 and before <= found:
            begin = after_newline(piece, before) if before > 0 else 0
            self.window += piece[begin : begin + room]
        self.newlines += found
        self.total_bytes += len(piece)
        self.last = piece[-1]


def after_newline(text: bytes | bytearray, number: int) -> int:
    """Where the text behind its newline ``number`` (from 1) begins; there must be so many.

    Bisected, because a piece may be nothing but newlines: a loop over them would hold the interpreter.
    """
    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        found = text.count(b"\n", low, middle)
        if found >= number:
            high = middle
        else:
            low, number = middle, number - found
    return high


def _scan_all(opened: Opened, scan: _Scan, file_bytes: int) -> None:
    _demand_size(opened.path, opened.status.st_size, file_bytes)
    # A usual small file is read by one call; a second one finds its end.
    piece = os.read(opened.descriptor, min(_PIECE, opened.status.st_size + 1))
    if b"\0" in piece[:_LOOKED_AT]:
        raise WorkspaceError(
            "BINARY_FILE", f"{opened.path} is not text: it has a NUL", hint="view_image shows pictures"
        )
    while piece:
        scan.take(piece)
        _demand_size(opened.path, scan.total_bytes, file_bytes)  # another process may write faster than this reads
        piece = os.read(opened.descriptor, _PIECE)


def _demand_size(path: str, size: int, most: int) -> None:
    if size > most:
        raise WorkspaceError(
            "OUTPUT_TOO_LARGE",
            f"{path} has {size} bytes, and files of up to {most} are read",
            hint="look at parts of it with exec_command: head, tail, sed -n",
            details={"path": path, "total_bytes": size},
        )


def _cut(scan: _Scan, line_count: int) -> tuple[bytes, bool]:
    """Whole lines of the kept text, or the beginning of the first; and whether more were requested."""
    window = scan.window
    found = window.count(b"\n")
    if found == line_count:  # of a whole file
        del window[window.rfind(b"\n") + 1 :]
    elif found > line_count:
        del window[after_newline(window, line_count) if line_count else 0 :]
    if len(window) <= scan.max_bytes:
        return bytes(window), False
    end = window.rfind(b"\n", 0, scan.max_bytes) + 1
    return bytes(window[: end or whole_characters(bytes(window[: scan.max_bytes]))]), True


def _excerpt(path: str, scan: _Scan, lines: LineRange) -> LineExcerpt:
    end_line = lines.end_line
    line_count = min(MAX_LINES, scan.total_lines if end_line is None else end_line - scan.start_line + 1)
    content, too_long = _cut(scan, max(0, line_count))
    exceeds = too_long and not content.endswith(b"\n")
    count = count_lines(content)
    last = scan.start_line + max(count, exceeds) - 1
    goal = scan.total_lines if end_line is None else min(scan.total_lines, end_line)
    truncated_by = "bytes" if too_long else "lines" if last < goal else None
    following = last + 1 if truncated_by and last < scan.total_lines else None
    answer = LineExcerpt(
        path=path,
        content=_decode(content, path),
        start_line=scan.start_line,
        end_line=min(last, scan.total_lines),
        total_lines=scan.total_lines,
        total_bytes=scan.total_bytes,
        truncated=truncated_by is not None,
        truncated_by=truncated_by,
        output_lines=count,
        output_bytes=len(content),
        next_start_line=following,
        warnings=[],
    )
    answer["warnings"] += _warnings(answer, exceeds=exceeds)
    numbers = True if lines.line_numbers else None
    if following is not None:
        answer["next_action"] = next_action(
            "read_file", path=path, start_line=following, max_bytes=scan.max_bytes, line_numbers=numbers
        )
    if lines.line_numbers:
        answer["content"] = _number_lines(answer["content"], scan.start_line)
    return answer


def _number_lines(content: str, first: int) -> str:
    lines = content.split("\n")
    last = lines.pop()  # nothing, but of a last line without an ending
    numbered = [f"{number}\t{line}\n" for number, line in enumerate(lines, first)]
    return "".join([*numbered, f"{first + len(lines)}\t{last}"] if last else numbered)


def whole_characters(data: bytes) -> int:
    """How many of the bytes are complete characters of UTF-8: the rest of the last one may come later."""
    tail = data[-_LONGEST_CHARACTER:]
    return len(data) - len(tail) + utf_8_decode(tail, "replace", False)[1]  # noqa: FBT003 - its only form


def _decode(content: bytes, path: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise WorkspaceError(
            "UNSUPPORTED_ENCODING",
            f"{path} is not UTF-8: there is a byte {content[error.start]:#04x} in the lines that were asked for",
            hint="look at it with exec_command: iconv, xxd",
        ) from error


def _warnings(answer: LineExcerpt, *, exceeds: bool) -> Iterator[str]:
    if answer["truncated"]:
        yield "content truncated"
    if exceeds:
        yield f"line {answer['start_line']} is longer than max_bytes; only its beginning is here"
    if answer["start_line"] > max(1, answer["total_lines"]):
        yield f"start_line is past the end: the file has {answer['total_lines']} lines"
