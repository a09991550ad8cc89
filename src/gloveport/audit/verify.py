"""Verifies the log: finds every line that was altered, removed, moved, inserted or cut, and names each once.

The genuine order is the longest selection of runs whose numbers rise in the order of the files. All other lines were
moved or inserted; numbers that no run has belong to lines that were altered or removed; and a line whose successor
names another hash was rewritten together with its own hash.
"""

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from gloveport.audit.linked_lines import Broken, LinePosition, LinkedLines, Scan, scan
from gloveport.audit.log_files import HEAD_NAME, Head
from gloveport.audit.record import GENESIS
from gloveport.audit.retention import Archived

ProblemKind: TypeAlias = Literal["altered", "removed", "reordered", "inserted", "truncated", "head"]


class Problem(Struct, frozen=True, kw_only=True):
    """One break of the log.

    Attributes:
        kind: What happened to the lines.
        place: The first line; for removed ones, where it was; ``None`` for the head file.
        lines: How many lines in a row; 0 for the head file.
        seq: Number of the first record, ``None`` where no record was or it can't be known.
        detail: The evidence.
    """

    kind: ProblemKind
    place: LinePosition | None
    lines: int
    seq: int | None
    detail: str

    def __str__(self) -> str:
        several = self.lines > 1
        where = str(self.place or HEAD_NAME)
        if several and self.place and self.kind != "removed":
            where += f"-{self.place.line + self.lines - 1}"
        seq = "" if self.seq is None else f"seq {self.seq}" + (f"-{self.seq + self.lines - 1}" if several else "")
        return ": ".join(filter(None, (where, self.kind, seq, self.detail)))


class Verification(Struct, frozen=True, kw_only=True):
    """The outcome.

    Attributes:
        problems: In the order of the files; the head's last. Empty: verified.
        head: The head; ``None`` when it is missing or damaged.
        unfinished_bytes: Size of a line beyond the head that a crash left incomplete; no problem, it will be cut off.
        archived: The last record that was removed for lack of room, as the chain states; None if none was.
    """

    problems: tuple[Problem, ...]
    files: int
    lines: int
    head: Head | None
    unfinished_bytes: int
    archived: Archived | None = None


class _Part(Struct, kw_only=True):
    """A run, or the beginning of one, that belongs to the genuine order."""

    run: LinkedLines
    index: int
    last: int

    @property
    def whole(self) -> bool:
        return self.last == self.run.last


class _Chosen(Struct, kw_only=True):
    """A run as the end of a selection: the lines of the selection, and the run selected before it."""

    index: int
    first: int
    last: int
    weight: int
    before: "_Chosen | None"


def verify(directory: Path) -> Verification:
    """Check the whole log against its hashes and its head, as it was at one moment.

    Raises:
        AuditError: There is no log, or something in it can't be read.
    """
    found = scan(directory)
    parts = _genuine(found)
    archived = _find_archived(found, parts)
    moved, problems = _left_over(found, parts, archived)
    problems += _gaps(found, parts, moved, archived)
    problems += _rewritten(found, parts, archived)
    problems.sort(key=lambda problem: problem.place or LinePosition(file=0, line=0))
    problems += _head(found, parts, problems)
    return Verification(
        problems=tuple(problems),
        files=found.files,
        lines=found.lines,
        head=found.head,
        unfinished_bytes=found.unfinished_bytes,
        archived=archived,
    )


def _find_archived(found: Scan, parts: list[_Part]) -> Archived | None:
    """The removal that the genuine order records, if its files are gone."""
    genuine = {part.index: part.last for part in parts}
    removals = [until for seq, index, until in found.archives if seq <= genuine.get(index, 0)]
    last = max(removals, default=None)
    if last is None or not parts or parts[0].run.first == 1:
        return None
    # Perhaps not all files are gone yet: then the log begins with the first line that is left.
    return last if parts[0].run.first > last.seq else Archived(parts[0].run.first - 1, parts[0].run.prev)


def _genuine(found: Scan) -> list[_Part]:
    """Select the runs with the most lines whose numbers rise.

    Where two overlap, the later one wins: its lines are confirmed by their successors.
    """
    ends: list[_Chosen] = []  # rising in last and in weight: a run that is worse in both is dropped
    for index, run in enumerate(found.runs):
        # The one line that may be beyond the head never begins a run, unless it is the first of all.
        if found.head is not None and run.first > max(found.head.seq, 1):
            continue
        length = run.last - run.first + 1
        position = bisect_left(ends, run.first, key=lambda end: end.last)
        before = ends[position - 1] if position else None
        weight = length + (before.weight if before else 0)
        while position < len(ends) and ends[position].last < run.last:
            overlapped = ends[position]
            if overlapped.first < run.first and overlapped.weight + run.last - overlapped.last > weight:
                before, weight = overlapped, overlapped.weight + run.last - overlapped.last
            position += 1
        if position and ends[position - 1].weight >= weight:
            continue
        beaten = position
        while beaten < len(ends) and ends[beaten].weight <= weight:
            beaten += 1
        ends[position:beaten] = [_Chosen(index=index, first=run.first, last=run.last, weight=weight, before=before)]
    parts: list[_Part] = []
    chosen = ends[-1] if ends else None
    while chosen is not None:
        last = min(chosen.last, parts[-1].run.first - 1) if parts else chosen.last
        parts.append(_Part(run=found.runs[chosen.index], index=chosen.index, last=last))
        chosen = chosen.before
    return parts[::-1]


def _left_over(found: Scan, parts: list[_Part], archived: Archived | None) -> tuple[set[int], list[Problem]]:
    """Name every sound line outside the genuine order; return the numbers of those that were only moved."""
    missing = list(_missing(found, parts, archived))
    genuine = {part.index: part.last for part in parts}
    moved: set[int] = set()
    problems: list[Problem] = []
    for index, run in enumerate(found.runs):
        for seq in range(max(run.first, genuine.get(index, 0) + 1), run.last + 1):
            gap = bisect_left(missing, seq, key=lambda bounds: bounds[1])
            if gap < len(missing) and missing[gap][0] <= seq and seq not in moved:
                moved.add(seq)
                _extend(problems, "reordered", run.place(seq), seq, "stands out of order")
            else:
                _extend(problems, "inserted", run.place(seq), seq, "the chain does not need it: a copy or a forgery")
    return moved, problems


def _missing(found: Scan, parts: list[_Part], archived: Archived | None) -> Iterator[tuple[int, int]]:
    """Yield the first and last number before each part that no part has, and after the last; empty ones too."""
    expected = archived.seq + 1 if archived else 1
    for part in parts:
        yield expected, part.run.first - 1
        expected = part.last + 1
    yield expected, found.head.seq if found.head else expected - 1


def _gaps(found: Scan, parts: list[_Part], moved: set[int], archived: Archived | None) -> list[Problem]:
    """Give broken lines the numbers that are missing at their place; report the other missing numbers as removed."""
    problems: list[Problem] = []
    bounds = [0, *(part.index + 1 for part in parts), len(found.runs) + 1]
    ordered = sorted(moved)
    for gap, (first, last) in enumerate(_missing(found, parts, archived)):
        start, end = (bisect_left(found.broken, bounds[gap + i], key=lambda line: line.runs_before) for i in (0, 1))
        broken = found.broken[start:end]
        taken = set(ordered[bisect_left(ordered, first) : bisect_left(ordered, last + 1)])
        for line, seq in _number_lines(broken, first, last, taken):
            detail = "it has no newline" if line.cut else "its bytes do not match its hash"
            if seq is None:
                detail = "it is no record and no record is missing here"
            kind: ProblemKind = "inserted" if seq is None else "truncated" if line.cut else "altered"
            problems.append(Problem(kind=kind, place=line.place, lines=1, seq=seq, detail=detail))
        place, detail = _hole(parts, gap, broken)
        for start, end in _ranges(first, last, sorted(taken)):
            problems.append(Problem(kind="removed", place=place, lines=end - start + 1, seq=start, detail=detail))
    return problems


def _number_lines(broken: list[Broken], first: int, last: int, taken: set[int]) -> list[tuple[Broken, int | None]]:
    """Give each broken line the missing number it states, or the lowest that is left; add those to ``taken``."""
    numbers: dict[LinePosition, int] = {}
    for line in broken:
        if line.seq is not None and first <= line.seq <= last and line.seq not in taken:
            numbers[line.place] = line.seq
            taken.add(line.seq)
    lowest = first
    for line in broken:
        while lowest in taken:
            lowest += 1
        if line.place not in numbers and lowest <= last:
            numbers[line.place] = lowest
            taken.add(lowest)
    return [(line, numbers.get(line.place)) for line in broken]


def _ranges(first: int, last: int, taken: list[int]) -> Iterator[tuple[int, int]]:
    for seq in [*taken, last + 1]:
        if first < seq:
            yield first, seq - 1
        first = seq + 1


def _hole(parts: list[_Part], gap: int, broken: list[Broken]) -> tuple[LinePosition, str]:
    """Return the place of a line missing before a part, after the broken lines there, and its neighbours."""
    before = parts[gap - 1].run.place(parts[gap - 1].last) if gap else LinePosition(file=1, line=0)
    if broken:
        before = max(before, broken[-1].place)
    place = LinePosition(file=before.file, line=before.line + 1)
    if gap == len(parts):
        return place, "missing at the end, the head counts it"
    after = parts[gap].run.place(parts[gap].run.first)
    return place, f"missing between {before} and {after}" if before.line else f"missing before {after}"


def _rewritten(found: Scan, parts: list[_Part], archived: Archived | None) -> list[Problem]:
    """Name lines that match their own hash, which is not the one that the next line names."""
    if not parts:
        return []
    problems: list[Problem] = []
    tail, head = parts[-1], found.head
    believed = head is None or found.head_line is not None or tail.last != head.seq or tail.run.first < tail.last
    for part, after in zip(reversed(parts[:-1]), reversed(parts[1:]), strict=True):
        adjacent = part.whole and part.last + 1 == after.run.first
        wrong = adjacent and believed and after.run.prev != part.run.hash
        if wrong:
            detail = "rewritten with its own hash, the next line names another"
            place = part.run.place(part.last)
            problems.append(Problem(kind="altered", place=place, lines=1, seq=part.last, detail=detail))
        # A rewritten line says nothing about the line before it, unless an untouched line of its run confirms it.
        believed = not (wrong and part.run.first == part.last)
    before, first = archived or Archived(0, GENESIS), parts[0].run
    if first.first == before.seq + 1 and believed and first.prev != before.hash:
        detail = "rewritten with its own hash, it does not begin the chain"
        place = first.place(first.first)
        problems.append(Problem(kind="altered", place=place, lines=1, seq=first.first, detail=detail))
    return problems


def _head(found: Scan, parts: list[_Part], problems: list[Problem]) -> list[Problem]:
    """Compare the end of the genuine order with the head file."""
    head = found.head
    end = parts[-1].last if parts else 0
    if head is None:
        detail = f"missing or damaged: lines after seq {end} may have been removed"
    elif end > head.seq + 1 or (end == head.seq + 1 and head.seq and found.head_line is None):
        detail = f"it ends the log at seq {head.seq}, the files go on to seq {end}"
    elif end == head.seq and head.seq and found.head_line is None:
        detail = f"it names another hash than the last line, {parts[-1].run.place(end)}: one of them was altered"
    elif not problems and not _fits(found, head):
        detail = f"it says that file {head.file} ends at byte {head.size}, which does not fit the files"
    else:
        return []
    return [Problem(kind="head", place=None, lines=0, seq=None, detail=detail)]


def _fits(found: Scan, head: Head) -> bool:
    """Tell whether the head's file and size are those of its line, and no file has anything after it."""
    number, size = found.end
    if number != head.file and (number, size) != (head.file + 1, 0):
        return False
    if head.size == 0 and head.file > 1:
        return found.head_line is not None and found.head_line[0] == head.file - 1
    return (found.head_line or (1, 0)) == (head.file, head.size)


def _extend(problems: list[Problem], kind: ProblemKind, place: LinePosition, seq: int, detail: str) -> None:
    """Add one line; lines in a row make one problem."""
    if problems and (last := problems[-1]).place is not None and last.seq is not None:
        follows = (last.place.file, last.place.line + last.lines, last.seq + last.lines) == (
            place.file,
            place.line,
            seq,
        )
        if follows and last.kind == kind:
            problems[-1] = Problem(kind=kind, place=last.place, lines=last.lines + 1, seq=last.seq, detail=detail)
            return
    problems.append(Problem(kind=kind, place=place, lines=1, seq=seq, detail=detail))
