"""Collects the files that a program has left in its sandbox, which may be hostile.

Only regular files are opened, one name at a time and through no link, so nothing outside the directory is ever reached;
a pipe, a device or a socket is recognized by its status, and never opened. The number of entries, the depth and the
bytes read are bounded, whatever sizes claim: a file may have holes, or grow while it is read. Nothing changes once all
processes are dead, but we do not rely on that: those of a session live on.
"""

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from msgspec import Struct, field

from gloveport.file_descriptors import LIST, READ, closing
from gloveport.untrusted_text import printable

MOST_FILES: Final = 64
_MOST_ENTRIES: Final = 4096
"""Entries to look at, of all directories together: the rest is not even named."""

_DEPTH: Final = 8
_CHUNK_BYTES: Final = 1 << 18
_NAME_CHARACTERS: Final = 200
_MOST_NAMED: Final = 8

_KINDS: Final = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class FileVersion(Struct, frozen=True):
    """Identifies one version of a file: inode, size, and change times in nanoseconds."""

    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileVersion":
        """The version of a file with this status."""
        return cls(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class OutFiles(Struct):
    """The collected files.

    Attributes:
        known_versions: Versions of files that were taken before, by path: unchanged ones are not taken again.
        taken_versions: Versions of the present files, for the next time.
        left_out: Files that were not taken, with the reasons, for people.
        left_out_total: How many these are.
    """

    known_versions: dict[str, FileVersion] = field(default_factory=dict)
    taken_versions: dict[str, FileVersion] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    left_out_total: int = 0
    _entries: int = _MOST_ENTRIES

    def leave_out(self, path: str, why: str) -> None:
        """Note that a file was not taken."""
        self.left_out_total += 1
        if len(self.left_out) < _MOST_NAMED:
            self.left_out.append(f"{path}: {why}")

    def collect(self, directory: int, most_bytes: int, take: Callable[[str], Callable[[bytes], None]]) -> None:
        """Pass every file to ``take``, which gets the path, printable and relative with ``/`` between names, and
        returns a function for the file's pieces. A file with which all would exceed ``most_bytes`` is left out; its
        read bytes count.

        Raises:
            OSError: Handling the pieces has failed.
        """
        remaining_bytes, files = most_bytes, 0
        marks = Counter[str]()
        for name, descriptor, status in self._walk(directory, "", 0):
            path = name + "~" * marks[name]
            while path in self.taken_versions:  # two names may be displayed alike, and all of them
                marks[name] += 1
                path = name + "~" * marks[name]
            if self.known_versions.get(path) == FileVersion.of(status):
                self.taken_versions[path] = self.known_versions[path]
                continue
            if files == MOST_FILES:
                self.leave_out(path, f"no more than {MOST_FILES} files are kept")
                continue
            if status.st_size > remaining_bytes:
                self.leave_out(path, f"{status.st_size} bytes, and no more than {most_bytes} are kept of all files")
                continue
            files += 1
            remaining_bytes -= _copy(descriptor, remaining_bytes, take(path))
            self.taken_versions[path] = FileVersion.of(status)

    def _walk(self, directory: int, prefix: str, depth: int) -> Iterator[tuple[str, int, os.stat_result]]:
        """Path, open descriptor and status of each regular file; the descriptor is valid until the next iteration."""
        os.lseek(directory, 0, os.SEEK_SET)
        with os.scandir(directory) as entries:
            found = [entry.name for entry in islice(entries, self._entries + 1)]
        if len(found) > self._entries:
            self.leave_out(f"{prefix}…", f"no more than {_MOST_ENTRIES} names are looked at")
            found.pop()
        self._entries -= len(found)
        for name in sorted(found):
            path = prefix + _show(name)
            try:
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                kind = stat.S_IFMT(status.st_mode)
                if kind not in (stat.S_IFREG, stat.S_IFDIR):
                    self.leave_out(path, _KINDS.get(kind, "no file"))
                    continue
                if kind == stat.S_IFDIR and depth == _DEPTH:
                    self.leave_out(path, "it lies too deep")
                    continue
                opened = os.open(name, LIST if kind == stat.S_IFDIR else READ, dir_fd=directory)
            except OSError as error:  # its mode forbids opening it, or it is gone
                self.leave_out(path, os.strerror(error.errno or 0))
                continue
            with closing(opened):
                if kind == stat.S_IFDIR:
                    yield from self._walk(opened, f"{path}/", depth + 1)
                    continue
                status = os.fstat(opened)
                if stat.S_ISREG(status.st_mode):  # it may be another file by now
                    yield path, opened, status


def has_entries(directory: int) -> bool:
    """Whether there is anything in an open directory."""
    os.lseek(directory, 0, os.SEEK_SET)
    with os.scandir(directory) as entries:
        return next(entries, None) is not None


def _show(name: str) -> str:
    """A displayable form of the program's file name: no control, no invisible character, no lone surrogate, no
    slash.
    """
    text = printable(os.fsencode(name).decode("utf-8", "backslashreplace"))
    return text if len(text) <= _NAME_CHARACTERS else f"{text[: _NAME_CHARACTERS - 1]}…"


def _copy(descriptor: int, most: int, put: Callable[[bytes], None]) -> int:
    """Copy a file; returns the bytes read: no more than ``most``, even if the file grows."""
    offset = 0
    while offset < most and (data := os.pread(descriptor, min(_CHUNK_BYTES, most - offset), offset)):
        put(data)
        offset += len(data)
    return offset
