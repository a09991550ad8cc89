"""Sockets at which servers of one user are found by commands of the same user."""

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gloveport.cli import run_protocol

_BACKLOG: Final = 64


@contextlib.contextmanager
def listen(path: Path, name: str) -> Iterator[socket.socket]:
    """A socket in the directory, which is made where it is not there. Those that nobody listens at are removed.

    Raises:
        OSError: There can be none.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with run_protocol.open_directory(path) as directory, socket.socket(socket.AF_UNIX) as listener:
        fcntl.flock(directory, fcntl.LOCK_EX)  # between bind and listen, nobody seems to listen
        for other in run_protocol.names(directory):
            _remove_dead(directory, other)
        listener.bind(run_protocol.address(directory, name))
        listener.listen(_BACKLOG)
        fcntl.flock(directory, fcntl.LOCK_UN)
        try:
            yield listener
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)


def _remove_dead(directory: int, name: str) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.settimeout(0)
        try:
            other.connect(run_protocol.address(directory, name))
        except ConnectionRefusedError:
            os.unlink(name, dir_fd=directory)
        except OSError:  # so many wait at it that it takes no more
            pass
