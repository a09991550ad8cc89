"""Holds lock files: serializes all processes of this host that make or remove something on disk."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from gloveport.errors import ConfigError
from gloveport.file_descriptors import closing


@contextlib.contextmanager
def hold_lock(path: Path, *, wait: bool, kind: int = fcntl.LOCK_EX) -> Iterator[bool]:
    """Hold a lock file, exclusively or, with ``LOCK_SH``, shared; yields whether we hold it (always, if we
    ``wait``).

    Raises:
        ConfigError: Its file system has no locks.
        OSError: It can't be opened.
    """
    with closing(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)) as descriptor:
        try:
            fcntl.flock(descriptor, kind if wait else kind | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        except OSError as error:
            raise ConfigError(
                f"{path} can't be locked: {error.strerror}", hint="set GLOVEPORT_STATE to a directory of a local disk"
            ) from error
        else:
            yield True
