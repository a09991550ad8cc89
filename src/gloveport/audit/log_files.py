"""The audit directory: names, safe opening, the head file and its lock.

The directory holds ``audit-000001.jsonl``, ``audit-000002.jsonl``, … and ``head``. The head says where the log ends:
number and hash of the last record, the file it stands in, and that file's size. It is rewritten in place under an
exclusive ``flock`` on itself; it is shorter than a disk sector, so neither a kill nor a power cut tears it.
"""

import errno
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from gloveport.audit.record import GENESIS, MAX_LINE_BYTES
from gloveport.errors import AuditError
from gloveport.file_descriptors import closing
from gloveport.late_pattern import late_pattern

HEAD_NAME = "head"
HEAD_BYTES = 256
BLOCK = 64 * 1024
LOCK_SECONDS = 5.0
"""A process that holds the lock this long is stopped or hostile: to refuse is better than to hang."""

SAFE = os.O_NOFOLLOW | os.O_CLOEXEC
VERIFY_HINT = "run `gloveport audit verify`; to begin a new log, move the directory away and keep it as evidence"

_OTHER_OWNER = (
    "run as that user, or use a directory of your own; after a move, give the whole state directory to this user"
)

_FILE = late_pattern(r"audit-([0-9]{6,18})\.jsonl")


class Head(NamedTuple):
    """The end of the log: the last record's number and hash, the present file, and its size in bytes."""

    seq: int
    hash: str
    file: int
    size: int

    def encode(self) -> bytes:
        """Return the head file's content: a JSON object, spaces up to ``HEAD_BYTES``, a newline."""
        members = f'{{"seq":{self.seq},"hash":"{self.hash}","file":{self.file},"size":{self.size}}}'
        return members.encode("ascii").ljust(HEAD_BYTES - 1) + b"\n"


EMPTY_LOG = Head(seq=0, hash=GENESIS, file=1, size=0)


def parse_head(data: bytes) -> Head | None:
    """Read a head file's content; ``None`` unless it has the exact form of ``Head.encode``."""
    try:
        members = json.loads(data)
        head = Head(seq=members["seq"], hash=members["hash"], file=members["file"], size=members["size"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    counts = (head.seq, head.file, head.size)
    sane = all(type(count) is int and count >= 0 for count in counts) and isinstance(head.hash, str)
    return head if sane and re.fullmatch("[0-9a-f]{64}", head.hash) and head.encode() == data else None


def file_name(number: int) -> str:
    """Return the name of the log's file with this number, from 1."""
    return f"audit-{number:06d}.jsonl"


def file_numbers(directory: int) -> list[int]:
    """Return the numbers of the files in the directory (a descriptor), ascending."""
    matches = (_FILE.fullmatch(name) for name in os.listdir(directory))
    return sorted(int(match[1]) for match in matches if match and match[0] == file_name(int(match[1])))


def open_file(number: int, directory: int) -> int:
    """Open one of the log's files (the directory is a descriptor) for reading.

    Raises:
        AuditError: It does not exist, is no regular file, or may not be read.
    """
    try:
        opened = os.open(file_name(number), os.O_RDONLY | os.O_NONBLOCK | SAFE, dir_fd=directory)
    except OSError as error:
        raise AuditError(f"{file_name(number)} can't be read: {error.strerror}", hint=VERIFY_HINT) from error
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise _irregular_error(file_name(number))
    return opened


def file_size(number: int, directory: int) -> int:
    """The size of one of the log's files; raises as ``open_file`` does."""
    with closing(open_file(number, directory)) as opened:
        return os.fstat(opened).st_size


def lines(number: int, directory: int, *, start: int = 0, end: int | None = None) -> Iterator[tuple[bytes, int]]:
    """Yield the lines of a file from one offset to another, each with the offset of its end.

    Includes the newline, if there is one. A line longer than any record comes without its middle.
    """
    with open(open_file(number, directory), "rb") as file:
        end = os.fstat(file.fileno()).st_size if end is None else end
        file.seek(start)
        while start < end and (line := file.readline(min(MAX_LINE_BYTES + 1, end - start))):
            start += len(line)
            rest = line
            while not rest.endswith(b"\n") and start < end and (rest := file.readline(min(BLOCK, end - start))):
                start += len(rest)
            yield (line if rest is line else line + rest[-1:]), start


def open_directory(directory: Path) -> int:
    """Open the audit directory for reading names and opening files in it.

    Raises:
        AuditError: It does not exist, is no directory or may not be read.
    """
    try:
        return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | SAFE)
    except OSError as error:
        raise AuditError(
            f"the audit directory {directory} can't be opened: {error.strerror}",
            hint="name the directory of a log, not a link to it, and run as its owner",
        ) from error


def require_private(status: os.stat_result, what: str) -> None:
    """Refuse a file that others could have written: not owned by this user, or writable by its group or by everybody.

    Raises:
        AuditError: It is so.
    """
    if status.st_uid != os.geteuid():
        raise AuditError(f"{what} belongs to another user (uid {status.st_uid})", hint=_OTHER_OWNER)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise AuditError(f"other users can write {what}", hint="make it yours alone: chmod go-w")


@contextmanager
def hold_lock(head: int, operation: int) -> Iterator[None]:
    """Hold the lock inside the context, as ``lock`` takes it."""
    try:
        lock(head, operation)
        yield
    finally:
        fcntl.flock(head, fcntl.LOCK_UN)


def lock(head: int, operation: int) -> None:
    """Take ``fcntl.LOCK_EX`` or ``LOCK_SH`` on the head file (a descriptor).

    Call it inside of the ``try`` that unlocks: an interrupt may come after the lock is taken and before this returns.
    Unlock by name, not by closing: a fork in another thread may hold a copy of the descriptor.

    Raises:
        AuditError: Another process held it for ``LOCK_SECONDS``.
    """
    deadline, pause = 0.0, 0.0001
    while True:
        try:
            fcntl.flock(head, operation | fcntl.LOCK_NB)
        except BlockingIOError as error:
            deadline = deadline or time.monotonic() + LOCK_SECONDS
            if time.monotonic() > deadline:
                raise AuditError(
                    f"another process held the lock of the audit log for {LOCK_SECONDS:.0f} seconds",
                    hint="see `fuser head` in the audit directory, and end a process that is stopped",
                ) from error
            time.sleep(pause)
            pause = min(pause * 2, 0.005)
        else:
            return


_NOT_OURS = frozenset({errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR})
"""Errors that more disk space would not solve: this user can't make or write the directory."""


def unwritable_error(directory: Path, error: OSError) -> AuditError:
    """The error where the log can't be written."""
    hint = "check the directory's owner and mode; no run starts until a record can be written"
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        hint = "make room there: nothing runs until then, and then all goes on by itself; audit.max_bytes bounds it"
    elif error.errno == errno.ENOLCK:
        hint = "its file system has no locks: name a directory of a local disk by audit.directory or GLOVEPORT_STATE"
    elif error.errno in _NOT_OURS:
        hint = "name a directory that this user can write: audit.directory in the configuration, or GLOVEPORT_STATE"
    return AuditError(
        f"the audit log in {directory} can't be written: {error.strerror}",
        hint=hint,
    )


def replacement_error() -> AuditError:
    """The error where the paths no longer lead to the open files."""
    return AuditError("the audit log was replaced while it was open", hint=f"{VERIFY_HINT}; then restart")


def _irregular_error(name: str) -> AuditError:
    return AuditError(f"{name} in the audit directory is no regular file", hint=VERIFY_HINT)


def identify(number: int, status: os.stat_result) -> tuple[int, int, int]:
    """Identify a file of the log, so that a replacement can be told from it."""
    return number, status.st_dev, status.st_ino


def describe_standing(status: os.stat_result) -> tuple[int, ...]:
    """A file's identity and who may write it: mode, inode, device, links, owner. A slice: names take far longer."""
    return status[:5]


def require_log_file(status: os.stat_result, name: str) -> None:
    """Refuse anything but a private regular file."""
    if not stat.S_ISREG(status.st_mode):
        raise _irregular_error(name)
    require_private(status, name)


def require_empty(descriptor: int, name: str) -> None:
    """Refuse a file that has content before its time."""
    if os.fstat(descriptor).st_size:
        raise AuditError(f"{name} in the audit directory has content before its time", hint=VERIFY_HINT)


def write_whole(descriptor: int, data: bytes) -> None:
    """Write all of it, or raise ``OSError``."""
    # A nearly full disk takes part of a write and refuses the next one.
    while data:
        data = data[os.write(descriptor, data) :]


def line_before(descriptor: int, end: int) -> bytes:
    """Return the line whose newline is the last byte before ``end``, without it; empty when there is none."""
    start = max(0, end - MAX_LINE_BYTES - 1)
    data = os.pread(descriptor, end - start, start)
    return data[data.rfind(b"\n", 0, -1) + 1 : -1] if len(data) == end - start and data.endswith(b"\n") else b""
