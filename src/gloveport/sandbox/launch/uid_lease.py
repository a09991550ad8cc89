"""Leases the unprivileged user ids of sandboxes, when Gloveport is started as root: one each, never shared."""

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gloveport.errors import SandboxError
from gloveport.file_descriptors import closing

_LOCK_FILE = Path("/run/gloveport.uids")


class Lease(NamedTuple):
    """A uid, and the descriptor that holds it: every process with a copy holds it too."""

    uid: int
    lock: int


@contextlib.contextmanager
def lease(first_uid: int, count: int) -> Iterator[Lease]:
    """A uid that no other sandbox of this host has during the context.

    Each uid is one byte of a lock file. The kernel frees the lock when its holders are dead, so no clean-up is needed.
    The locks belong to the open file, not to the process: two sandboxes of one server exclude each other.

    Raises:
        SandboxError: All are taken, or the lock file can't be opened.
    """
    try:
        lock = os.open(_LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise SandboxError(
            f"{_LOCK_FILE}: {error.strerror}", hint="Gloveport as root keeps its locks in /run"
        ) from error
    with closing(lock):
        for index in range(count):
            # struct flock: type, whence, start, length, pid (0 for locks of an open file description)
            request = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, first_uid + index, 1, 0)
            with contextlib.suppress(BlockingIOError):
                fcntl.fcntl(lock, fcntl.F_OFD_SETLK, request)
                yield Lease(first_uid + index, lock)
                return
        raise SandboxError(f"all {count} user ids from {first_uid} are in use", hint="raise sandbox.uid_count")
