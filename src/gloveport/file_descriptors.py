"""Opens files that somebody else may have put there, through no link and without waiting; writes and closes them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LIST: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Flags for reading that never block, neither on a FIFO nor on a file with a lease, and never acquire a terminal."""

CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """The descriptor, closed when the context ends."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it.

    Raises:
        OSError: There is no space; a part may be written.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
