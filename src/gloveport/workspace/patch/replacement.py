"""Replaces a text in a file, which is found as it stands there, wherever in its lines. Pure.

Lines that hold nothing of the text stay as they were, byte for byte. Line breaks of the text are those of the file.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from typing import Final

from pydantic import BaseModel, ConfigDict, JsonValue

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.patch.file_swap import MAX_BYTES
from gloveport.workspace.patch.matching import describe_nearest, describe_place
from gloveport.workspace.patch.text import FileText, Splice
from gloveport.workspace.tool_types import Text

MAX_PLACES: Final = 100_000
_CANDIDATES: Final = 8


class Replacement(BaseModel):
    """One text in place of another in a file.

    Attributes:
        path: The file, which is there.
        old_string: What is replaced. It stands in the file once, unless all places are meant.
        new_string: What comes in its place.
        replace_all: Whether it is replaced wherever it stands.
        revision: Of the file, as ``read_file`` tells it; needed where all places are meant.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Text
    old_string: Text
    new_string: str
    replace_all: bool = False
    revision: Text | None = None


@dataclass(frozen=True, slots=True)
class Replaced:
    """What a replacement comes to.

    Attributes:
        text: The file as it was, but that its last line may have an ending now, or none any more.
        splices: In order, not overlapping.
        count: Places at which the text stood.
    """

    text: FileText
    splices: tuple[Splice, ...]
    count: int


def replace_text(text: FileText, asked: Replacement, path: str) -> Replaced:
    """Replace the text in a file; ``path`` is its name in errors.

    Raises:
        WorkspaceError: INVALID_ARGUMENT where the texts are the same; PATCH_CONTEXT_NOT_FOUND;
            PATCH_CONTEXT_AMBIGUOUS; PATCH_FAILED where the file would become too large.
    """
    old, new = (each.replace("\r\n", "\n") for each in (asked.old_string, asked.new_string))
    if old == new:
        raise WorkspaceError("INVALID_ARGUMENT", "old_string and new_string are the same")
    lines = text.lines()
    whole = "\n".join(lines) + ("\n" if lines and text.ended else "")
    count = whole.count(old)
    if not count:
        raise _not_found(lines, old, path)
    offsets = [0, *accumulate(len(line) + 1 for line in lines)]
    if count > 1 and not asked.replace_all:
        few = islice(_find(whole, old), _CANDIDATES)
        raise _ambiguous(lines, [bisect_right(offsets, start) - 1 for start in few], count, path)
    if count > MAX_PLACES or len(whole) + count * (len(new) - len(old)) > MAX_BYTES:  # before it is made
        raise WorkspaceError(
            "PATCH_FAILED",
            f"{path} would be larger than {MAX_BYTES >> 20} MiB, or changed in more than {MAX_PLACES} places",
            hint="change it with a command",
            details={"path": path, "match_count": count},
        )
    offsets[-1] = len(whole)
    starts = deque(_find(whole, old))
    splices = []
    while starts:
        first, last, changed = _span(whole, offsets, starts, (len(old), new))
        if last == len(lines):
            text = replace(text, ended=changed.endswith("\n") or not changed)
        splices.append(Splice(first, last, _split(changed)))
    return Replaced(text, tuple(splices), count)


def _find(whole: str, old: str) -> Iterator[int]:
    at = whole.find(old)
    while at >= 0:
        yield at
        at = whole.find(old, at + len(old))


def _span(whole: str, offsets: Sequence[int], starts: deque[int], change: tuple[int, str]) -> tuple[int, int, str]:
    """The lines that hold the next places, up to the first end of a line that stays one; and what they become.

    Args:
        whole: The file.
        offsets: Where each line begins, and where the file ends.
        starts: The places that are left; those of the span are taken out.
        change: How many characters a place has, and what comes there.
    """
    length, new = change
    first = bisect_right(offsets, starts[0]) - 1
    end, cursor, final = first, offsets[first], ""
    pieces: list[str] = []
    while True:
        end += 1
        while starts and starts[0] < offsets[end]:
            for piece in (whole[cursor : starts[0]], new):
                pieces.append(piece)
                final = piece[-1:] or final
            cursor = starts.popleft() + length
            end = max(end, bisect_left(offsets, cursor))
        pieces.append(whole[cursor : offsets[end]])
        cursor = max(cursor, offsets[end])
        final = pieces[-1][-1:] or final
        if final in {"", "\n"} or end == len(offsets) - 1:
            return first, end, "".join(pieces)


def _split(changed: str) -> tuple[str, ...]:
    lines = changed.split("\n")
    return tuple(lines if lines[-1] else lines[:-1])


def _not_found(lines: Sequence[str], old: str, path: str) -> WorkspaceError:
    return WorkspaceError(
        "PATCH_CONTEXT_NOT_FOUND",
        f"old_string does not stand in {path}",
        hint="read the file as it is now; each blank counts, and the numbers of lines are no part of them",
        details={"path": path, "match_count": 0, "total_lines": len(lines), **describe_nearest(lines, old.split("\n"))},
    )


def _ambiguous(lines: Sequence[str], few: Sequence[int], count: int, path: str) -> WorkspaceError:
    candidates: list[JsonValue] = [{"line": line + 1, "text": describe_place(lines, line)} for line in few]
    return WorkspaceError(
        "PATCH_CONTEXT_AMBIGUOUS",
        f"old_string stands in {count} places of {path}",
        hint="give it more of the text around, or say replace_all with the file's revision",
        details={
            "path": path,
            "match_count": count,
            "candidate_lines": [line + 1 for line in few],
            "candidates": candidates,
        },
    )
