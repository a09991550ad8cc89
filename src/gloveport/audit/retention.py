"""What is removed of a log that has grown too large, and what stays to prove the rest.

Whole files go, the oldest first. Before they do, a record in the chain says up to which record and which hash: the
first line that is left names that very hash, so what is left verifies to its beginning, and nobody can remove one line
more unseen.
"""

import contextlib
import json
import os
import sys
from typing import Final, NamedTuple

from msgspec import Struct

from gloveport.audit.log_files import file_name, file_numbers, open_file
from gloveport.audit.record import MAX_LINE_BYTES, link
from gloveport.model.json_value import JsonValue

ARCHIVED = "log.archived"
"""Kind of the record."""

_MARK = b'"kind":"log.archived"'


class RetentionBounds(Struct, frozen=True, kw_only=True):
    """How much is written down.

    Attributes:
        record_bytes: Of one record; its largest fields are replaced by size and digest.
        log_bytes: Of all files; the oldest are removed.
        refusals: Of one kind and one run that are written; further ones are counted.
    """

    record_bytes: int = MAX_LINE_BYTES
    log_bytes: int = sys.maxsize
    refusals: int = 100


UNBOUNDED: Final = RetentionBounds()


class Archived(NamedTuple):
    """The beginning of a log that was removed: its last record's number and hash."""

    seq: int
    hash: str


class Removal(NamedTuple):
    """What is to be removed.

    Attributes:
        numbers: Of the files, ascending.
        size: Of all of them together.
        until: The end of the last.
    """

    numbers: tuple[int, ...]
    size: int
    until: Archived

    def fields(self) -> dict[str, JsonValue]:
        """What the record says of it."""
        names = [file_name(self.numbers[0]), file_name(self.numbers[-1])]
        return {"seq_removed": self.until.seq, "hash_removed": self.until.hash, "files": [*names], "bytes": self.size}


def find_removal(directory: int, current: int, room: int) -> Removal | None:
    """The oldest files that have to go so that all but the current one have ``room``; None where none has to, or can.

    What does not end in a sound record is evidence, and stays with all that follows it.
    """
    sizes = {number: _size(number, directory) for number in file_numbers(directory) if number < current}
    left, removed, until = sum(sizes.values()), list[int](), None
    for number, size in sizes.items():
        if left <= room:
            break
        end = _last_link(number, directory)
        if end is None:
            break
        removed.append(number)
        left -= size
        until = end
    if until is None:
        return None
    return Removal(tuple(removed), sum(sizes[number] for number in removed), until)


def remove(removal: Removal, directory: int) -> None:
    """Remove the files. One that can't be stays, and goes with the next."""
    for number in removal.numbers:
        with contextlib.suppress(OSError):
            os.unlink(file_name(number), dir_fd=directory)


def archived_by(line: bytes) -> Archived | None:
    """What a sound line of the log says was removed; None for any other record."""
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
    opened = open_file(number, directory)
    try:
        size = os.fstat(opened).st_size
        data = os.pread(opened, MAX_LINE_BYTES + 1, max(0, size - MAX_LINE_BYTES - 1))
    finally:
        os.close(opened)
    if not data.endswith(b"\n"):
        return None
    last = link(data[data.rfind(b"\n", 0, -1) + 1 : -1])
    return None if last is None else Archived(last.seq, last.hash)
