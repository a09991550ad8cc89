"""Finds the place of each hunk of an update among the lines of a file. Pure, and in bounded time.

A hunk must match at exactly one place, by the strictest grade (see ``text``) by which it matches at all. Hunks come in
the order of the file: each is searched after the one before.

Each line becomes one character, and equal lines the same one, so that a search is one for a substring, which the
interpreter does in linear time. The total cost of a patch's searches is bounded all the same: a patch may hold 100,000
hunks, and a file a million lines.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any, Final

from gloveport.patch_text.parsing import Hunk, Mark
from gloveport.patch_text.patch_error import PatchError
from gloveport.patch_text.text import (
    BLANKS,
    GRADES,
    Grade,
    LineIndex,
    Shift,
    Splice,
    find_shift,
    index_lines,
    normalize,
    shift_line,
)

EFFORT: Final = 300_000_000
"""Most lines that all searches in one file may pass: about a second."""

_COSTLY: Final = 1000
"""The cost of comparing a line's indentation, in lines passed by a search."""
_NEARBY_LINES, _NEARBY_BYTES = 6, 800
_CANDIDATES: Final = 8
_WORDS: Final = 8
_WORD_COST: Final = 20
"""The cost of looking for a word in a line, in lines passed by a search."""

_VOTERS: Final = 200


@dataclass(frozen=True, slots=True)
class PlacedHunks:
    """The places of a file's hunks.

    Attributes:
        splices: In order, not overlapping; one for each group of lines that change together.
        grade: The least strict grade that was needed.
        warnings: Warnings for people, one sentence each.
    """

    splices: tuple[Splice, ...]
    grade: Grade
    warnings: tuple[str, ...]


def place_hunks(hunks: Sequence[Hunk], lines: Sequence[str], path: str, effort: int = EFFORT) -> PlacedHunks:
    """Find the places of all hunks. ``effort``: how many lines all searches may pass.

    Raises:
        PatchError: PATCH_CONTEXT_NOT_FOUND, PATCH_CONTEXT_AMBIGUOUS; PATCH_FAILED if it takes too long.
    """
    search = _HunkSearch(lines, path, effort)
    splices: list[Splice] = []
    appended: list[str] = []
    warnings: list[str] = []
    grades: list[Grade] = ["exact"]
    for number, hunk in enumerate(hunks):
        found = search.find(number, hunk)
        splices += found.splices
        appended += found.appended
        if found.grade:
            grades.append(found.grade)
            if reason := GRADES[found.grade]:
                warnings.append(f"{path}: hunk {number}: {reason}")
        else:
            warnings.append(f"{path}: hunk {number} is there already and was skipped")
    if appended:
        splices.append(Splice(len(lines), len(lines), tuple(appended)))
    return PlacedHunks(tuple(_join_touching(splices)), max(grades, key=list(GRADES).index), tuple(warnings))


def describe_nearest(lines: Sequence[str], block: Sequence[str]) -> dict[str, Any]:
    """Find the place in a file that matches most lines of a block, without trailing blanks; as details of an error."""
    search = _HunkSearch(lines, "")
    with suppress(PatchError):  # the search takes too long
        nearest, agreeing = search.nearest(block)
        return search.describe(nearest, agreeing)
    return {}


def describe_place(lines: Sequence[str], line: int) -> str:
    """Render the numbered lines around a line, in few bytes."""
    first = max(0, line - _NEARBY_LINES)
    near = lines[first : line + _NEARBY_LINES + 1]
    text = "\n".join(f"{first + offset + 1}: {each[:_NEARBY_BYTES]}" for offset, each in enumerate(near))
    return text.encode()[:_NEARBY_BYTES].decode(errors="ignore")


@dataclass(frozen=True, slots=True)
class _HunkMatch:
    """The place of one hunk; no grade if the file has the hunk's result already."""

    grade: Grade | None
    splices: tuple[Splice, ...] = ()
    appended: tuple[str, ...] = ()


@dataclass(slots=True)
class _HunkSearch:
    """The search for the hunks of one file, which only moves forward."""

    lines: Sequence[str]
    path: str
    effort: int = EFFORT
    cursor: int = 0
    passed: int = 0
    indexes: dict[Grade, LineIndex] = field(default_factory=dict)

    def find(self, number: int, hunk: Hunk) -> _HunkMatch:
        for anchor in hunk.anchors:
            self.cursor = self._anchor(number, hunk, anchor) + 1
        trimmed = _trim(hunk.lines)
        if all(mark == "+" for mark, _ in trimmed):
            return _HunkMatch("exact", appended=tuple(text for _, text in trimmed))
        for lines in (hunk.lines, trimmed):
            if found := self._context(number, hunk, lines) or self._there_already(lines):
                return found
        raise self._not_found(number, hunk)

    def _anchor(self, number: int, hunk: Hunk, anchor: str) -> int:
        for grade in GRADES:
            for position in self._positions((anchor,), grade):
                return position
        raise PatchError(
            "PATCH_CONTEXT_NOT_FOUND",
            f"{self.path} has no line like the anchor of hunk {number} behind line {self.cursor}",
            hint="read the file and take a line of it as the anchor",
            details={
                **self._details(number, hunk),
                "scope": anchor,
                "search_start_line": self.cursor + 1,
                "nearby_text": describe_place(self.lines, self.cursor),
            },
        )

    def _context(self, number: int, hunk: Hunk, lines: Sequence[tuple[Mark, str]]) -> _HunkMatch | None:
        block = tuple(text for mark, text in lines if mark != "+")
        for grade in GRADES:
            candidates = self._candidates(block, grade, hunk)
            first, second = next(candidates, None), next(candidates, None)
            if first and second:
                raise self._ambiguous(number, hunk, grade, [first[0], second[0], *(more for more, _ in candidates)])
            if first:
                start, shift = first
                self.cursor = start + len(block)
                return _HunkMatch(grade, tuple(_splices(lines, start, shift)))
        return None

    def _candidates(self, block: Sequence[str], grade: Grade, hunk: Hunk) -> Iterator[tuple[int, Shift]]:
        """Yield where the block matches, and how the indentation differs. A hunk marked as at the end goes there."""
        last = len(self.lines) - len(block)
        found = self._fitting(block, grade, self._positions(block, grade))
        if hunk.at_end and last >= self.cursor:
            at_end = list(self._fitting(block, grade, self._positions(block, grade, last)))
            found = iter(at_end) if at_end else found
        return found

    def _fitting(self, block: Sequence[str], grade: Grade, positions: Iterator[int]) -> Iterator[tuple[int, Shift]]:
        for position in positions:
            if grade != "indent":
                yield position, ("", "")
                continue
            self._pass(len(block) * _COSTLY)
            if shift := find_shift(block, self.lines[position : position + len(block)]):
                yield position, shift

    def _there_already(self, lines: Sequence[tuple[Mark, str]]) -> _HunkMatch | None:
        """Find the hunk's result in the file, at one place. A single line without context is no proof."""
        old = [text for mark, text in lines if mark != "+"]
        new = [text for mark, text in lines if mark != "-"]
        is_specific = len(new) > 1 or any(mark in {" ", ""} for mark, _ in lines)
        if old == new or not is_specific or not any(text.strip(BLANKS) for text in new):
            return None
        for grade in islice(GRADES, 2):
            positions = list(islice(self._positions(new, grade), 2))
            if len(positions) == 1:
                self.cursor = positions[0] + len(new)
                return _HunkMatch(None)
        return None

    def _positions(self, block: Sequence[str], grade: Grade, start: int | None = None) -> Iterator[int]:
        """Yield all positions, from ``start`` or the cursor on, at which the lines match the block."""
        if grade not in self.indexes:
            self.indexes[grade] = index_lines(self.lines, grade)
        characters, text = self.indexes[grade]
        block_characters = [characters.get(normalize(line, grade)) for line in block]
        needle = "".join(character for character in block_characters if character is not None)
        position = (self.cursor if start is None else start) - 1
        while len(needle) == len(block):
            before, position = position, text.find(needle, position + 1)
            self._pass((len(text) if position < 0 else position) - before + len(block))
            if position < 0:
                return
            yield position

    def _pass(self, lines: int) -> None:
        self.passed += lines
        if self.passed > self.effort:
            raise PatchError(
                "PATCH_FAILED",
                f"the hunks for {self.path} take too long to find",
                hint="split the patch, or use apply_changes, which tells lines by number",
                details={"path": self.path},
            )

    def _ambiguous(self, number: int, hunk: Hunk, grade: Grade, starts: Sequence[int]) -> PatchError:
        few = starts[:_CANDIDATES]
        return PatchError(
            "PATCH_CONTEXT_AMBIGUOUS",
            f"hunk {number} fits {len(starts)} places of {self.path}",
            hint="give it more of the unchanged lines around, or an anchor: @@ and a line that stands before the place",
            details={
                **self._details(number, hunk),
                "match_count": len(starts),
                "match_quality": grade,
                "candidate_lines": [start + 1 for start in few],
                "candidates": [{"line": start + 1, "text": describe_place(self.lines, start)} for start in few],
            },
        )

    def _not_found(self, number: int, hunk: Hunk) -> PatchError:
        nearest, agreeing = self.nearest([text for mark, text in hunk.lines if mark != "+"])
        return PatchError(
            "PATCH_CONTEXT_NOT_FOUND",
            f"hunk {number} fits no place of {self.path} behind line {self.cursor}",
            hint="read the file as it is now, and write the hunk anew; hunks come in the order of the file",
            details={**self._details(number, hunk), **self.describe(nearest, agreeing)},
        )

    def describe(self, nearest: int, agreeing: int) -> dict[str, Any]:
        """Make the details of an error: the place that almost matches."""
        return {
            "nearest_line": nearest + 1,
            "nearest_matching_lines": agreeing,
            "nearby_text": describe_place(self.lines, nearest),
        }

    def nearest(self, block: Sequence[str]) -> tuple[int, int]:
        """Find the place that matches most lines of a block, blanks aside, by votes of the lines; and their number."""
        votes: dict[int, int] = {}
        for offset, line in enumerate(block[:_VOTERS]):
            if line.strip(BLANKS):
                for position in islice(self._positions((line,), "indent", 0), _CANDIDATES):
                    votes[position - offset] = votes.get(position - offset, 0) + 1
        if not votes:
            return self._most_alike(max(block, key=len, default="")), 0
        start = max(votes, key=lambda place: (votes[place], place >= self.cursor, -place))
        return max(0, start), votes[start]

    def _most_alike(self, line: str) -> int:
        """Find the line that shares most words with this one; the cursor's if none does, or it would take too long."""
        shown = line[:_NEARBY_BYTES]
        spaced = "".join(each if each.isalnum() or each == "_" else " " for each in shown)
        words = sorted({*spaced.split()}, key=len, reverse=True)[:_WORDS]
        places: Sequence[int] = range(self.cursor, len(self.lines))
        if len(places) * len(words) * _WORD_COST > self.effort - self.passed:
            places = ()

        def likeness(place: int) -> int:
            text = self.lines[place][:_NEARBY_BYTES]
            return sum(len(word) for word in words if word in text)

        return max(places, key=likeness, default=min(self.cursor, max(0, len(self.lines) - 1)))

    def _details(self, number: int, hunk: Hunk) -> dict[str, Any]:
        return {
            "path": self.path,
            "hunk_index": number,
            "match_count": 0,
            "match_quality": None,
            "scope": hunk.anchors[-1] if hunk.anchors else None,
            "total_lines": len(self.lines),
            "retry_hint": "Read the file as it is now and write this hunk anew.",
        }


def _splices(lines: Sequence[tuple[Mark, str]], start: int, shift: Shift) -> Iterator[Splice]:
    for changing, group in groupby(lines, key=lambda line: line[0] in {"+", "-"}):
        members = list(group)
        end = start + sum(mark != "+" for mark, _ in members)
        if changing:
            yield Splice(start, end, tuple(shift_line(text, shift) for mark, text in members if mark == "+"))
        start = end


def _trim(lines: tuple[tuple[Mark, str], ...]) -> tuple[tuple[Mark, str], ...]:
    """Remove unmarked empty lines at the end, which are mostly layout before the next operation."""
    end = len(lines)
    while end and not lines[end - 1][0]:
        end -= 1
    return lines[:end]


def _join_touching(splices: Sequence[Splice]) -> list[Splice]:
    """Join adjacent splices: the last hunk's, and an addition at the end."""
    joined: list[Splice] = []
    for splice in splices:
        if joined and joined[-1].end == splice.start:
            joined[-1] = Splice(joined[-1].start, splice.end, joined[-1].lines + splice.lines)
        else:
            joined.append(splice)
    return joined
