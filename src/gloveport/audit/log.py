"""The only writer of the audit log: one hash chain, shared by every server process of a directory.

Invariants, kept under an exclusive lock on the head file:

- A record is appended to the file that the head names, at the size that the head names; then the head is rewritten.
  So whatever the moment of a crash, at most one line stands beyond the head, whole or torn.
- A new file is begun empty and named by the head before anything is written to it.
- Nothing is appended to a log whose end differs from the head: an append links to a line that was just checked.
- A partly written record is taken back; a failed write is an ``AuditError``, never silence.
- The first record is on the disk when its append returns: no power cut takes a whole log, so that another would begin.
"""

import contextlib
import errno
import fcntl
import hashlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from gloveport.audit.log_files import (
    EMPTY_LOG,
    HEAD_BYTES,
    HEAD_NAME,
    SAFE,
    VERIFY_HINT,
    Head,
    describe_standing,
    file_name,
    file_numbers,
    hold_lock,
    identify,
    line_before,
    lock,
    open_directory,
    open_file,
    parse_head,
    replacement_error,
    require_empty,
    require_log_file,
    require_private,
    unwritable_error,
    write_whole,
)
from gloveport.audit.record import MAX_LINE_BYTES, Record, UnchainedRecord, draft, link, seal, shallow
from gloveport.audit.retention import ARCHIVED, UNBOUNDED, RetentionBounds, find_removal, remove
from gloveport.errors import AuditError
from gloveport.file_descriptors import closing
from gloveport.model.json_value import JsonValue
from gloveport.user_directories import make_private_directory

Clean: TypeAlias = Callable[[Mapping[str, JsonValue]], Mapping[str, JsonValue]]
"""Removes secrets from the fields of a record."""

_WARNING_SECONDS = 60.0

_log = logging.getLogger(__name__)


class AuditLog:
    """An open log. Threads and processes may append at the same time; after a fork, open it anew."""

    def __init__(
        self, directory: Path, *, max_file_bytes: int, bounds: RetentionBounds, clean: Clean, directory_fd: int
    ) -> None:
        self.bounds = bounds
        self._directory = directory
        self._directory_path = str(directory)
        self._max_file_bytes = max_file_bytes
        self._clean = clean
        self._directory_fd = directory_fd
        self._head_fd = -1
        self._log_fd = -1
        self._in_place: tuple[tuple[int, ...], ...] = ()
        """Of directory and head file, when they were last found to be the open ones, and private."""
        self._log_file = (0, 0, 0)
        self._log_name = ""
        self._head = EMPTY_LOG
        self._head_data = b""
        """The head file as it was when ``_head`` was taken from it; empty: take nothing for granted."""
        self._mutex = threading.Lock()
        self._closed = False
        self._next_warning = 0.0

    @classmethod
    def open(
        cls, directory: Path, *, max_file_bytes: int, bounds: RetentionBounds = UNBOUNDED, clean: Clean = dict
    ) -> Self:
        """Open the log in this directory; both are made when they do not exist.

        A line that a crash left half-written is cut off and recorded as ``log.recovered``.

        Args:
            directory: Owned by this user, writable by nobody else.
            max_file_bytes: Size at which a new file is begun; a file holds one record at least.
            bounds: Limits of the log's size. Default: only what a reader can read.
            clean: Applied to each record. Default: nothing, for writers that know no secret.

        Raises:
            AuditError: The directory can't be used, or the log in it does not end as its head says.
        """
        directory = directory.absolute()
        try:
            make_private_directory(directory)
            log = cls(
                directory,
                max_file_bytes=max_file_bytes,
                bounds=bounds,
                clean=clean,
                directory_fd=open_directory(directory),
            )
            try:
                log._begin()
            except BaseException:
                log.close()
                raise
        except OSError as error:
            raise unwritable_error(directory, error) from error
        return log

    def append(self, kind: str, fields: Mapping[str, JsonValue]) -> Record:
        """Write one record at the end of the chain; when this returns, every process sees it.

        Args:
            kind: Dotted name of what happened, for example ``execute.admitted``.
            fields: JSON values. Those that make the record too large are replaced by their size and digest.

        Raises:
            AuditError: The record is no JSON or was not written, and the log is as it was before. Do not act.
        """
        try:
            what = draft(kind, self._clean(fields), self.bounds.record_bytes)
        except RecursionError:
            flat = {name: shallow(value) for name, value in fields.items()}
            what = draft(kind, self._clean(flat), self.bounds.record_bytes)
        with self._mutex:
            if self._closed:
                raise AuditError("the audit log is closed")
            try:
                return self._append(what)
            except OSError as error:
                failure = unwritable_error(self._directory, error)
                self._warn(failure)
                raise failure from error
            except AuditError as failure:
                self._warn(failure)
                raise

    def close(self) -> None:
        """Close the descriptors. The log needs no closing record: it is complete after each append."""
        with self._mutex:
            if not self._closed:
                self._closed = True
                for descriptor in (self._log_fd, self._head_fd, self._directory_fd):
                    if descriptor >= 0:
                        os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self.close()

    def _warn(self, failure: AuditError) -> None:
        """Tell the operator, too, and not each time: calls go on to come, and each of them fails."""
        if time.monotonic() >= self._next_warning:
            self._next_warning = time.monotonic() + _WARNING_SECONDS
            _log.warning("nothing runs: %s", failure)

    def _begin(self) -> None:
        require_private(os.fstat(self._directory_fd), f"the audit directory {self._directory}")
        self._head_fd = os.open(HEAD_NAME, os.O_RDWR | os.O_CREAT | SAFE, 0o600, dir_fd=self._directory_fd)
        # The head is read before each record; on most mounts each read would also write its access time.
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._head_fd, fcntl.F_SETFL, os.O_NOATIME)
        with hold_lock(self._head_fd, fcntl.LOCK_EX):
            self._catch_up()

    def _append(self, what: UnchainedRecord) -> Record:
        # Not ``hold_lock``: its generator would be a twentieth of what a record costs, and each request waits for two.
        try:
            lock(self._head_fd, fcntl.LOCK_EX)
            self._catch_up()
            record = self._write(what)
        finally:
            fcntl.flock(self._head_fd, fcntl.LOCK_UN)  # no function around it, into which an interrupt could come first
        if record.seq == 1:  # without the lock, for which others wait a few seconds only
            for descriptor in (self._log_fd, self._head_fd, self._directory_fd):
                os.fsync(descriptor)
        return record

    def _catch_up(self) -> None:
        """Update ``_head`` and ``_log_fd`` to the end of the log after writes of others; refuse a false end."""
        self._require_in_place()
        data = os.pread(self._head_fd, HEAD_BYTES + 1, 0)
        if self._head_data and data == self._head_data:
            status = os.stat(self._log_name, dir_fd=self._directory_fd, follow_symlinks=False)
            if identify(self._head.file, status) == self._log_file and status.st_size == self._head.size:
                return
        self._head_data = b""
        head = self._create_log() if data == b"" else parse_head(data)
        if head is None:
            raise AuditError("the head file of the audit log is damaged", hint=VERIFY_HINT)
        self._adopt(self._open_file(head.file, os.O_RDWR), head.file)
        self._require_last_line(head)
        self._head, self._head_data = head, head.encode()
        self._settle_rest()

    def _require_in_place(self) -> None:
        """Refuse when the paths no longer lead to the open files: writes to a deleted file would be lost."""
        directory = os.stat(self._directory_path, follow_symlinks=False)  # noqa: PTH116 - pathlib's takes thrice as long
        head = os.stat(HEAD_NAME, dir_fd=self._directory_fd, follow_symlinks=False)
        in_place = (describe_standing(directory), describe_standing(head))
        if in_place == self._in_place:
            return
        opened, opened_head = os.fstat(self._directory_fd), os.fstat(self._head_fd)
        if not (os.path.samestat(opened, directory) and os.path.samestat(opened_head, head)):
            raise replacement_error()
        require_log_file(head, HEAD_NAME)
        require_private(directory, f"the audit directory {self._directory}")
        self._in_place = in_place

    def _create_log(self) -> Head:
        """Begin a log where there is none; refuse files with content but without a head."""
        for number in file_numbers(self._directory_fd):
            if os.stat(file_name(number), dir_fd=self._directory_fd, follow_symlinks=False).st_size:
                raise AuditError("the audit log has records and no head file", hint=VERIFY_HINT)
        os.close(self._open_file(EMPTY_LOG.file, os.O_RDWR | os.O_CREAT))
        self._write_head(EMPTY_LOG)
        return EMPTY_LOG

    def _open_file(self, number: int, flags: int) -> int:
        # O_APPEND: this descriptor can't overwrite earlier records, and also works with chattr +a.
        opened = os.open(file_name(number), flags | os.O_APPEND | SAFE, 0o600, dir_fd=self._directory_fd)
        try:
            require_log_file(os.fstat(opened), file_name(number))
        except AuditError:
            os.close(opened)
            raise
        return opened

    def _adopt(self, opened: int, number: int) -> None:
        """Write to this descriptor from now on. A file that was used before must still be the same one."""
        before, file = self._log_fd, identify(number, os.fstat(opened))
        if number == self._log_file[0] and file != self._log_file:
            os.close(opened)
            raise replacement_error()
        self._log_fd, self._log_file, self._log_name = opened, file, file_name(number)
        if before >= 0:
            os.close(before)

    def _require_last_line(self, head: Head) -> None:
        """Refuse when the line that the head calls the last is missing or different."""
        if head.size == 0 and head.seq > 0:
            with closing(open_file(head.file - 1, self._directory_fd)) as before:
                line = line_before(before, os.fstat(before).st_size)
        else:
            line = line_before(self._log_fd, head.size)
        last = link(line)
        if head != EMPTY_LOG and (last is None or (last.seq, last.hash) != (head.seq, head.hash)):
            raise AuditError(f"the audit log does not end with record {head.seq} as its head says", hint=VERIFY_HINT)

    def _settle_rest(self) -> None:
        """Repair the rest that a crash left beyond the head: adopt a whole line that links, cut off a torn one."""
        head = self._head
        rest = os.fstat(self._log_fd).st_size - head.size
        if rest == 0:
            return
        # A rest longer than a line does not come from a writer.
        line = os.pread(self._log_fd, rest, head.size) if 0 < rest <= MAX_LINE_BYTES else b""
        if line and b"\n" not in line:
            self._cut_off(line)
            return
        last = link(line[:-1]) if line.endswith(b"\n") else None
        if last is None or (last.seq, last.prev) != (head.seq + 1, head.hash):
            raise AuditError(f"the audit log goes on after record {head.seq} with what is no record", hint=VERIFY_HINT)
        self._write_head(Head(seq=last.seq, hash=last.hash, file=head.file, size=head.size + rest))

    def _cut_off(self, torn: bytes) -> None:
        """Replace a torn line beyond the head with a record of it; if that can't be written, the line stays."""
        head = self._head
        os.ftruncate(self._log_fd, head.size)
        name, digest = file_name(head.file), hashlib.sha256(torn).hexdigest()
        try:
            self._write(draft("log.recovered", {"file": name, "cut_bytes": len(torn), "cut_sha256": digest}))
        except (OSError, AuditError):
            if self._head == head:
                with contextlib.suppress(OSError):
                    write_whole(self._log_fd, torn)
            self._head_data = b""
            raise

    def _write(self, what: UnchainedRecord) -> Record:
        record = seal(what, seq=self._head.seq + 1, prev=self._head.hash)
        if self._head.size and self._head.size + len(record.line) + 1 > self._max_file_bytes:
            self._begin_file()
            if self._remove_oldest():
                record = seal(what, seq=self._head.seq + 1, prev=self._head.hash)
        return self._put(record)

    def _remove_oldest(self) -> bool:
        """Remove the oldest files for lack of room; tells whether that was recorded."""
        room = self.bounds.log_bytes - self._max_file_bytes
        removal = find_removal(self._directory_fd, self._head.file, room) if room < sys.maxsize // 2 else None
        if removal is None:
            return False
        self._put(seal(draft(ARCHIVED, removal.fields()), seq=self._head.seq + 1, prev=self._head.hash))
        remove(removal, self._directory_fd)  # only now: an unrecorded removal would look like tampering
        return True

    def _put(self, record: Record) -> Record:
        data = record.line.encode("ascii") + b"\n"
        head = self._head
        try:
            write_whole(self._log_fd, data)
            self._write_head(Head(record.seq, record.hash, head.file, head.size + len(data)))
        except OSError:
            # Should this fail too, a torn line is left beyond the head: the next append cuts it off.
            self._head_data = b""
            with contextlib.suppress(OSError):
                os.ftruncate(self._log_fd, head.size)
            raise
        return record

    def _begin_file(self) -> None:
        number = self._head.file + 1
        # May exist, empty: another process was killed between here and the head.
        opened = self._open_file(number, os.O_RDWR | os.O_CREAT)
        try:
            require_empty(opened, file_name(number))
            self._write_head(Head(seq=self._head.seq, hash=self._head.hash, file=number, size=0))
        except BaseException:
            os.close(opened)
            raise
        self._adopt(opened, number)

    def _write_head(self, head: Head) -> None:
        data, before = head.encode(), self._head_data
        self._head_data = b""
        written = 0
        try:
            written = os.pwrite(self._head_fd, data, 0)
        finally:
            if written != len(data):
                with contextlib.suppress(OSError):
                    os.pwrite(self._head_fd, before[:written], 0)
                    os.ftruncate(self._head_fd, len(before))
        if written != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._head, self._head_data = head, data
