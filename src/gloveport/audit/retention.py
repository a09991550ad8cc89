"""Removes the oldest files of a log that has grown too large, and records the removal.

Whole files are removed, the oldest first. Before that, a record in the chain states the last record removed and its
hash. The first remaining line names the same hash, so the rest verifies from its beginning, and nobody can remove
another line unseen.
"""

import contextlib
import json
import os
import sys
from typing import Final, NamedTuple

from msgspec import Struct

from gloveport.audit.log_files import file_name, file_numbers, line_before, open_file
from gloveport.audit.record import MAX_LINE_BYTES, link
from gloveport.file_descriptors import closing
from gloveport.model.json_value import JsonValue

ARCHIVED = "log.archived"
"""Kind of the record."""

_MARK = b'"kind":"log.archived"'


class RetentionBounds(Struct, frozen=True, kw_only=True):
    """Limits of the log's size.

    Attributes:
        record_bytes: Size of one record; beyond it, its largest fields are replaced by size and digest.
        log_bytes: Size of all files; beyond it, the oldest are removed.
        refusals: Recorded refusals of one kind in one run; further ones are only counted.
    """

    record_bytes: int = MAX_LINE_BYTES
    log_bytes: int = sys.maxsize
    refusals: int = 100


UNBOUNDED: Final = RetentionBounds()


class Archived(NamedTuple):
    """The removed beginning of a log: its last record's number and hash."""

    seq: int
    hash: str


class Removal(NamedTuple):
    """Files to be removed.

    Attributes:
        numbers: Numbers of the files, ascending.
        size: Size of all of them together.
        until: The last record in them.
    """

    numbers: tuple[int, ...]
    size: int
    until: Archived

    def fields(self) -> dict[str, JsonValue]:
        """The fields of its record."""
        names = [file_name(self.numbers[0]), file_name(self.numbers[-1])]
        return {"seq_removed": self.until.seq, "hash_removed": self.until.hash, "files": [*names], "bytes": self.size}


def find_removal(directory: int, current: int, room: int) -> Removal | None:
    """The oldest files to remove so that all but the current one fit into ``room``; None where none must, or can, go.

    A file that does not end in a sound record is evidence, and stays with all that follow it.
    """
    sizes = {number: _size(number, directory) for number in file_numbers(directory) if number < current}
    remaining_bytes, removed, until = sum(sizes.values()), list[int](), None
    for number, size in sizes.items():
        if remaining_bytes <= room:
            break
        end = _last_link(number, directory)
        if end is None:
            break
        removed.append(number)
        remaining_bytes -= size
        until = end
    if until is None:
        return None
    return Removal(tuple(removed), sum(sizes[number] for number in removed), until)


def remove(removal: Removal, directory: int) -> None:
    """Remove the files. One that can't be removed stays until the next removal."""
    for number in removal.numbers:
        with contextlib.suppress(OSError):
            os.unlink(file_name(number), dir_fd=directory)


def archived_by(line: bytes) -> Archived | None:
    """The removal that a sound line of the log records; None for any other record."""
    if _MARK not in line[:128]:
        return None
    try:
        members = json.loads(line)
        until = Archived(members["seq_removed"], members["hash_removed"])
    except (ValueError, KeyError, TypeError):
        return None
    return until if type(until.seq) is int and isinstance(until.hash, str) else None


def _size(number: int, directory: int) -> int:
    return os.stat(file_name(number), dir_fd=directory, follow_symlinks=False).st_size


def _last_link(number: int, directory: int) -> Archived | None:
    with closing(open_file(number, directory)) as opened:
        last = link(line_before(opened, os.fstat(opened).st_size))
    return None if last is None else Archived(last.seq, last.hash)
