"""Reads the log: all of it, matching records, and its end as it grows. Takes no lock: writers never wait for readers.

A line that is no record, or does not match its own hash, is neither shown as a record nor skipped: it comes as
``Damaged``. ``gloveport.audit.verify`` tells whether the whole chain holds.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from gloveport.audit.log_files import BLOCK, file_name, file_numbers, file_size, lines, open_directory, open_file
from gloveport.audit.record import Record, parse
from gloveport.errors import AuditError
from gloveport.file_descriptors import closing


class Damaged(Struct, frozen=True, kw_only=True):
    """A line that is no record.

    Attributes:
        offset: Of the line's first byte.
    """

    file: str
    offset: int

    def __str__(self) -> str:
        return f"{self.file}: the line at byte {self.offset} is no record or was altered; run `gloveport audit verify`"


Entry: TypeAlias = Record | Damaged


class Filter(Struct, frozen=True, kw_only=True):
    """Conditions on a record; an absent condition always holds.

    Attributes:
        kind: The record's kind, or its first parts: ``execute`` matches ``execute.denied``.
        outcome: Value of the field ``outcome`` or ``status``.
        since: Earliest time, inclusive; it knows its time zone.
        until: Latest time, exclusive; it knows its time zone.
    """

    kind: str | None = None
    run: str | None = None
    caller: str | None = None
    outcome: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def matches(self, record: Record) -> bool:
        """Say whether every condition holds."""
        return (
            (self.kind is None or f"{record.kind}.".startswith(f"{self.kind.rstrip('.')}."))
            and self.run in (None, record.fields.get("run"))
            and self.caller in (None, record.fields.get("caller"))
            and self.outcome in (None, record.fields.get("outcome"), record.fields.get("status"))
            and (self.since is None or record.time >= self.since)
            and (self.until is None or record.time < self.until)
        )


def records(directory: Path) -> Iterator[Entry]:
    """Yield the log from its first record to the last that exists when reading gets there.

    Raises:
        AuditError: The directory or a file in it can't be read.
    """
    with closing(open_directory(directory)) as descriptor:
        numbers = file_numbers(descriptor)
        for number in numbers:
            start = 0
            with _unless_removed(number, descriptor):
                for line, end in lines(number, descriptor):
                    # Without a newline at the very end: a record that is being written.
                    if line.endswith(b"\n") or number != numbers[-1]:
                        yield _entry(line, number, start)
                    start = end


def query(directory: Path, criteria: Filter) -> Iterator[Entry]:
    """Yield the records that match, oldest first, and every damaged line, since its content is unknown.

    Raises:
        AuditError: The directory or a file in it can't be read.
    """
    return (entry for entry in records(directory) if isinstance(entry, Damaged) or criteria.matches(entry))


def tail(directory: Path, count: int) -> list[Entry]:
    """Return the last records, oldest first; only the end of the log is read.

    Raises:
        AuditError: The directory or a file in it can't be read.
    """
    return Follower(directory, last=count).poll()


class Follower:
    """Follows a log that grows: first its last records, then those added since the last poll."""

    def __init__(self, directory: Path, *, last: int) -> None:
        self._directory = directory
        self._number = 1
        self._offset = 0
        with closing(open_directory(directory)) as descriptor:
            self._entries = self._last(descriptor, last)

    def poll(self) -> list[Entry]:
        """Return the new records, oldest first.

        Raises:
            AuditError: The log can't be read, or is shorter than it was.
        """
        entries, self._entries = self._entries, []
        with closing(open_directory(self._directory)) as descriptor:
            # Listed before reading: a file that has a follower is never written to again.
            numbers = [number for number in file_numbers(descriptor) if number >= self._number]
            for number in numbers:
                if number != self._number:
                    self._number, self._offset = number, 0
                with _unless_removed(number, descriptor):
                    entries += self._read_added(descriptor)
        return entries

    def _read_added(self, descriptor: int) -> list[Entry]:
        size = file_size(self._number, descriptor)
        if size < self._offset:
            raise AuditError(f"{file_name(self._number)} lost its end", hint="run `gloveport audit verify`")
        added: list[Entry] = []
        for line, end in lines(self._number, descriptor, start=self._offset, end=size):
            if line.endswith(b"\n"):
                added.append(_entry(line, self._number, self._offset))
                self._offset = end
        return added

    def _last(self, descriptor: int, count: int) -> list[Entry]:
        found: list[Entry] = []
        numbers = file_numbers(descriptor)
        self._number = max(numbers, default=1)
        for number in reversed(numbers):
            with _unless_removed(number, descriptor):
                entries, end = _last_of_file(descriptor, number, count - len(found))
                found = entries + found
                if number == self._number:
                    self._offset = end
            if len(found) >= count:
                break
        return found


@contextmanager
def _unless_removed(number: int, descriptor: int) -> Iterator[None]:
    """Pass over a file that is removed meanwhile, as the oldest of a log that is too large."""
    try:
        yield
    except AuditError:
        if number in file_numbers(descriptor):
            raise


def _last_of_file(descriptor: int, number: int, count: int) -> tuple[list[Entry], int]:
    """Return a file's last records and the offset of the end of its last whole line."""
    with closing(open_file(number, descriptor)) as opened:
        size = os.fstat(opened).st_size
        end = _find_lines(opened, size, count)
    entries: list[Entry] = []
    for line, line_end in lines(number, descriptor, start=end, end=size):
        if line.endswith(b"\n"):
            entries.append(_entry(line, number, end))
            end = line_end
    return entries, end


def _find_lines(opened: int, end: int, count: int) -> int:
    """Return where the last ``count`` whole lines begin; keeps nothing of a file without lines, however large."""
    ends = 0
    while end > 0:
        start = max(0, end - BLOCK)
        block = os.pread(opened, end - start, start)
        offset = len(block)
        while (offset := block.rfind(b"\n", 0, offset)) >= 0:
            ends += 1
            if ends > count:
                return start + offset + 1
        end = start
    return 0


def _entry(line: bytes, number: int, offset: int) -> Entry:
    return parse(line.removesuffix(b"\n")) or Damaged(file=file_name(number), offset=offset)
