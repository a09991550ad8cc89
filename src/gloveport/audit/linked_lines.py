"""The log as runs of linked lines, for its verification, in memory that grows only with the damage.

An intact log is one run. Every altered, removed, moved or inserted line ends a run and begins another.
"""

import errno
import fcntl
import os
import stat
from pathlib import Path

from msgspec import Struct, field

from gloveport.audit.log_files import (
    HEAD_BYTES,
    HEAD_NAME,
    SAFE,
    Head,
    file_name,
    file_numbers,
    file_size,
    hold_lock,
    lines,
    open_directory,
    parse_head,
)
from gloveport.audit.record import MAX_LINE_BYTES, ChainLink, claimed_seq, link
from gloveport.audit.retention import Archived, archived_by
from gloveport.errors import AuditError
from gloveport.file_descriptors import closing


class LinePosition(Struct, frozen=True, kw_only=True, order=True):
    """A line: number of its file and of the line in it, both from 1."""

    file: int
    line: int

    def __str__(self) -> str:
        return f"{file_name(self.file)}:{self.line}"


class LinkedLines(Struct, kw_only=True):
    """Lines that follow each other, each linking to the one before.

    Attributes:
        first: Number of the first record.
        last: Number of the last record.
        prev: What the first line names as the hash before it.
        hash: Hash of the last line.
        starts: The first record, and the first of each further file, with their places.
    """

    first: int
    last: int
    prev: str
    hash: str
    starts: list[tuple[int, LinePosition]]

    def place(self, seq: int) -> LinePosition:
        """Return where the record with this number stands."""
        start, place = next(start for start in reversed(self.starts) if start[0] <= seq)
        return LinePosition(file=place.file, line=place.line + seq - start)


class Broken(Struct, frozen=True, kw_only=True):
    """A line that is no record or does not match its own hash.

    Attributes:
        place: Where it stands.
        seq: The number that the line states, if that can be read.
        cut: Whether it lacks its newline.
        runs_before: How many runs begin before it.
    """

    place: LinePosition
    seq: int | None
    cut: bool
    runs_before: int


class Scan(Struct, kw_only=True):
    """The content of the directory.

    Attributes:
        head: Content of the head file; ``None`` when it is missing or damaged.
        runs: In the order of the files.
        broken: In the order of the files.
        head_line: The line that the head calls the last, if it is found: its file and the offset of its end.
        end: Number and size of the last file.
        archives: Removals that records state: number of the record, index of its run, and the last record removed.
        unfinished_bytes: Size of a line beyond the head that a crash left incomplete.
    """

    head: Head | None
    files: int = 0
    lines: int = 0
    runs: list[LinkedLines] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    head_line: tuple[int, int] | None = None
    end: tuple[int, int] = (0, 0)
    archives: list[tuple[int, int, Archived]] = field(default_factory=list)
    unfinished_bytes: int = 0


def scan(directory: Path) -> Scan:
    """Read the whole log, as it was at one moment.

    Raises:
        AuditError: There is no log, or something in it can't be read.
    """
    with closing(open_directory(directory)) as descriptor:
        while True:
            data, sizes = _snapshot(descriptor)
            if not data and not any(sizes.values()):
                raise AuditError(f"there is no audit log in {directory}", hint="name its directory with --directory")
            found = Scan(head=parse_head(data), files=len(sizes), end=max(sizes.items(), default=(0, 0)))
            try:
                for number, size in sizes.items():
                    _scan_file(found, descriptor, number, size)
            except AuditError:
                if sizes.keys() <= {*file_numbers(descriptor)}:
                    raise
                continue  # the log was too large, and its oldest file was removed meanwhile
            return found


def _snapshot(descriptor: int) -> tuple[bytes, dict[int, int]]:
    """Return the head file's content, empty where it is no file, and each file's size, as they were together."""
    try:
        head = os.open(HEAD_NAME, os.O_RDONLY | os.O_NONBLOCK | SAFE, dir_fd=descriptor)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ELOOP}:
            return b"", _sizes(descriptor)
        raise AuditError(f"the head file can't be read: {error.strerror}", hint="run as the log's owner") from error
    with closing(head), hold_lock(head, fcntl.LOCK_SH):
        data = os.pread(head, HEAD_BYTES + 1, 0) if stat.S_ISREG(os.fstat(head).st_mode) else b""
        return data, _sizes(descriptor)


def _sizes(descriptor: int) -> dict[int, int]:
    return {number: file_size(number, descriptor) for number in file_numbers(descriptor)}


def _scan_file(found: Scan, descriptor: int, number: int, size: int) -> None:
    start, head = 0, found.head
    for count, (line, end) in enumerate(lines(number, descriptor, end=size), start=1):
        whole = line.endswith(b"\n")
        if (
            not whole
            and head is not None
            and (number, start) == (head.file, head.size)
            and size - start <= MAX_LINE_BYTES
        ):
            found.unfinished_bytes = size - start
            return
        found.lines += 1
        place, good = LinePosition(file=number, line=count), link(line[:-1]) if whole else None
        if good is None:
            seq = claimed_seq(line)
            found.broken.append(Broken(place=place, seq=seq, cut=not whole, runs_before=len(found.runs)))
        else:
            broken_before = bool(found.broken) and found.broken[-1].runs_before == len(found.runs)
            _join(found, good, place, after_broken=broken_before)
            if until := archived_by(line):
                found.archives.append((good.seq, len(found.runs) - 1, until))
            if head is not None and (good.seq, good.hash) == (head.seq, head.hash):
                found.head_line = (number, end)
        start = end


def _join(found: Scan, line: ChainLink, place: LinePosition, *, after_broken: bool) -> None:
    run = found.runs[-1] if found.runs and not after_broken else None
    if run is None or (line.seq, line.prev) != (run.last + 1, run.hash):
        starts = [(line.seq, place)]
        found.runs.append(LinkedLines(first=line.seq, last=line.seq, prev=line.prev, hash=line.hash, starts=starts))
        return
    run.last, run.hash = line.seq, line.hash
    if run.starts[-1][1].file != place.file:
        run.starts.append((line.seq, place))
