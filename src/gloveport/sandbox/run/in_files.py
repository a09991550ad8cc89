"""Writes the files that come with a program into its working directory, before it begins.

In a session hostile processes already run there: so path components are opened one at a time, through no link, and
existing files are not written to. Renames meanwhile stay within the sandbox's own file system.
"""

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from gloveport.file_descriptors import CREATE, LIST, closing, write_all

_libc: Final = ctypes.CDLL(None, use_errno=True)


def write_files(directory: int, files: Mapping[str, bytes], uid: int | None) -> None:
    """Write files below an open directory of a sandbox, by relative paths without ``..``; parent directories are made.
    To be called in a thread: as root, its credentials change meanwhile. ``uid`` is the host's uid of the program, if
    not ours: a sandbox's file system refuses files that root makes.

    Raises:
        OSError: There is no room, or a name is impossible.
    """
    with _file_owner(uid):
        for path, data in files.items():
            _write_file(directory, path.split("/"), data)


def _write_file(directory: int, names: list[str], data: bytes) -> None:
    if len(names) > 1:
        with suppress(FileExistsError):
            os.mkdir(names[0], 0o755, dir_fd=directory)
        with closing(os.open(names[0], LIST, dir_fd=directory)) as below:
            _write_file(below, names[1:], data)
        return
    with closing(os.open(names[0], CREATE, 0o644, dir_fd=directory)) as file:
        write_all(file, data)


@contextmanager
def _file_owner(uid: int | None) -> Iterator[None]:
    """Act as this user towards file systems, in this thread only."""
    if uid is None:
        yield
        return
    gid_before, uid_before = _libc.setfsgid(uid), _libc.setfsuid(uid)
    try:
        yield
    finally:
        _libc.setfsuid(uid_before)
        _libc.setfsgid(gid_before)
