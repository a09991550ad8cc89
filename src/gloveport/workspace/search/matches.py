"""Parses an engine's findings: a bounded number of matches, with previews of bounded size.

The findings are the output of ``rg --json``: for each file a ``begin``, then its lines, matches and context, each with
its number. Other lines are skipped, and so is a truncated last one.
"""

import base64
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, NotRequired, TypedDict

from msgspec import Struct
from pydantic_core import from_json

from gloveport.workspace.files.spelling import spell_path

MAX_OUTPUT_BYTES: Final = 1 << 21
"""The most bytes of previews and lines in one answer."""

_BEGIN: Final = b'{"type":"begin"'
_MATCH: Final = b'{"type":"match"'
_CONTEXT: Final = b'{"type":"context"'
_MARK: Final = "…"
_MARK_BYTES: Final = len(_MARK.encode())


class Match(TypedDict):
    """A line that matches, or the lines that a match goes over.

    ``line`` and ``column`` count from 1; a column is a character (a code point) of the line, where the first match in
    it begins. A cut preview contains that place.
    """

    path: str
    line: int
    column: int
    preview: str
    before: list[str]
    after: list[str]
    preview_truncated: NotRequired[bool]
    preview_truncated_by: NotRequired[str]


class FileMatches(TypedDict):
    """A file with matching lines, and their number."""

    path: str
    lines: int


class Chosen(Struct, frozen=True):
    """The chosen matches, the number of reported matching lines, and the answer's lines and bytes."""

    matches: list[Match]
    total: int
    lines: int
    size: int


class _Row(NamedTuple):
    """A line of a file; ``place`` is the character range of its first match, if it has one."""

    path: str
    number: int
    text: str
    place: tuple[int, int] | None

    @property
    def last(self) -> int:
        """The number of its last line: a match may span several."""
        return self.number + self.text.count("\n")


class MatchSelection(Struct, frozen=True):
    """What an answer shall contain.

    Attributes:
        leaves_out: Whether a file is left out, by its path; None if all searched files count.
        context: Lines before and after a match.
        offset: How many matches, or files, to skip.
        max_results: The most matches or files after these.
        max_preview_bytes: The most bytes of one line.
    """

    leaves_out: Callable[[str], bool] | None
    context: int
    offset: int
    max_results: int
    max_preview_bytes: int


def count_matches(output: bytes, selection: MatchSelection) -> list[FileMatches]:
    """All files with matching lines, in order."""
    found: list[FileMatches] = []
    passes = False
    for record in output.split(b"\n")[:-1]:
        if record.startswith(_BEGIN):
            path = _path_of(record)
            if passes := selection.leaves_out is None or not selection.leaves_out(path):
                found.append({"path": path, "lines": 0})
        elif passes and record.startswith(_MATCH):
            found[-1]["lines"] += 1
    return [file for file in found if file["lines"]]


def choose_matches(output: bytes, selection: MatchSelection) -> Chosen:
    """Choose the matches for the answer."""
    context, max_preview_bytes = selection.context, selection.max_preview_bytes
    rows, total = _rows(output, selection)
    matches: list[Match] = []
    size = lines = passed = 0
    for at, row in enumerate(rows):
        if row.place is None or len(matches) == selection.max_results:
            continue
        passed += 1
        if passed <= selection.offset:
            continue
        match = _match(rows, at, row.place, context, max_preview_bytes)
        texts = (match["preview"], *match["before"], *match["after"])
        size += (its_size := sum(len(text.encode()) for text in texts))
        if size > MAX_OUTPUT_BYTES:
            size -= its_size
            break
        matches.append(match)
        lines += len(texts)
    return Chosen(matches, total, lines, size)


def _rows(output: bytes, selection: MatchSelection) -> tuple[list[_Row], int]:
    """The reported lines until there are enough, and the number of all matching lines."""
    max_results, context = selection.offset + selection.max_results, selection.context
    rows: list[_Row] = []
    total = after = 0
    path, passes = "", True
    for record in output.split(b"\n")[:-1]:
        if record.startswith(_BEGIN):
            path = _path_of(record)
            passes = selection.leaves_out is None or not selection.leaves_out(path)
            continue
        is_match = record.startswith(_MATCH)
        if not passes or not (is_match or record.startswith(_CONTEXT)):
            continue
        total += is_match
        after += total > max_results or (total == max_results and not is_match)
        if after <= context:
            rows.append(_row(path, from_json(record)["data"], is_match=is_match))
    return rows, total


def _path_of(begin: bytes) -> str:
    return spell_path(_bytes(from_json(begin)["data"]["path"]).removeprefix(b"./"))


def _row(path: str, line_data: dict[str, Any], *, is_match: bool) -> _Row:
    text = line_data["lines"].get("text")
    line = b"" if text and text.isascii() else _bytes(line_data["lines"])
    if text is None:
        text = line.decode(errors="replace")
    text = text.removesuffix("\n").removesuffix("\r")
    if not is_match:
        return _Row(path, line_data["line_number"], text, None)
    first = next(iter(line_data["submatches"]), {"start": 0, "end": 0})
    start, end = first["start"], first["end"]
    if line:  # offsets are in bytes, not characters
        start, end = (len(line[:place].decode(errors="replace")) for place in (start, end))
    return _Row(path, line_data["line_number"], text, (start, end))


def _bytes(text_data: dict[str, str]) -> bytes:
    """The bytes of a text, or of Base64 for invalid UTF-8."""
    return text_data["text"].encode() if "text" in text_data else base64.b64decode(text_data["bytes"])


def _match(rows: Sequence[_Row], at: int, place: tuple[int, int], context: int, max_bytes: int) -> Match:
    row = rows[at]
    preview, is_cut = _preview(row.text, place, max_bytes)
    match: Match = {
        "path": row.path,
        "line": row.number,
        "column": place[0] + 1,
        "preview": preview,
        "before": _beside(rows, at, range(-context, 0), max_bytes),
        "after": _beside(rows, at, range(1, context + 1), max_bytes),
    }
    if is_cut:
        match |= {"preview_truncated": True, "preview_truncated_by": "bytes"}
    return match


def _beside(rows: Sequence[_Row], at: int, steps: range, max_bytes: int) -> list[str]:
    """The lines so many steps away, if they were reported. A line beside a match may match too."""
    row = rows[at]
    return [
        _preview(other.text, (0, 0), max_bytes)[0]
        for step, other in ((step, rows[at + step]) for step in steps if 0 <= at + step < len(rows))
        if other.path == row.path and (other.number == row.last + step if step > 0 else other.last == row.number + step)
    ]


def _preview(text: str, place: tuple[int, int], max_bytes: int) -> tuple[str, bool]:
    """The line, or its part around a place, with marks where it is cut; and whether it is cut."""
    whole = text.encode()
    if len(whole) <= max_bytes:
        return text, False
    begin, end = (len(text[:character].encode()) for character in place)
    room = max_bytes - _MARK_BYTES
    if end <= room:
        return whole[:room].decode(errors="ignore") + _MARK, True
    room -= _MARK_BYTES
    start = min(max(0, begin - room // 4), len(whole) - room)
    part = whole[start : start + room].decode(errors="ignore")
    return f"{_MARK}{part}{_MARK if start + room < len(whole) else ''}", True
