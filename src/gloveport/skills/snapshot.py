"""Reads the directory of a skill once, as a whole and within bounds: the hashed bytes are those shown, approved and
run.

The directory may be hostile. No link in it is followed, nothing is opened that could block, and no path is looked up
twice. A link, a device or a FIFO anywhere in it makes it an invalid skill.
"""

import errno
import hashlib
import os
import stat
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Final, TypeAlias

from msgspec import Struct

from gloveport.errors import Denied
from gloveport.file_descriptors import LIST, READ, closing
from gloveport.late_pattern import late_pattern
from gloveport.openat2 import open_beneath
from gloveport.skills.frontmatter import bad_skill
from gloveport.skills.hidden_text import find_hidden
from gloveport.untrusted_text import is_visible, one_line

MOST_FILES: Final = 256
MOST_BYTES: Final = 4 << 20
"""The most bytes of all files together."""

Fingerprint: TypeAlias = tuple[tuple[str, int, int, int], ...]
"""Path, inode, size and change time of each file and directory."""

_CONTROL: Final = late_pattern(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_SETTLED_NS: Final = 2_000_000_000
_DEPTH: Final = 6
_NAME_BYTES: Final = 200
_MOST_NAME_CHARS: Final = 80


class Snapshot(Struct, frozen=True, dict=True):
    """The files of a skill at one moment, by their path in its directory."""

    name: str
    files: Mapping[str, bytes]

    @property
    def bytes(self) -> int:
        """Size of all files together."""
        return sum(map(len, self.files.values()))

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """SHA-256 of each file, in hex."""
        return {path: hashlib.sha256(data).hexdigest() for path, data in sorted(self.files.items())}

    @cached_property
    def sha256(self) -> str:
        """Digest of the name and the content of every file. Approvals are for this digest."""
        listed = "".join(f"{digest} {path}\n" for path, digest in self.digests.items())
        return hashlib.sha256(f"{self.name}\n{listed}".encode()).hexdigest()

    def text(self, path: str) -> str:
        """A file as text. Raises Denied if it is missing, or no UTF-8 text."""
        data = self.files.get(path)
        if data is None:
            raise bad_skill(f"it has no file {one_line(path, _MOST_NAME_CHARS)}")
        if b"\x00" in data:
            raise bad_skill(f"{one_line(path, _MOST_NAME_CHARS)} is no text: it has a NUL")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise bad_skill(f"{one_line(path, _MOST_NAME_CHARS)} is no UTF-8") from error


def read_snapshot(root: int, name: str) -> Snapshot:
    """Read the skill of this (checked) name below an open directory.

    Raises:
        Denied: There is none, or it can't be used.
    """
    try:
        directory = open_beneath(root, os.fsencode(name), LIST)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
            raise unknown_skill(name) from error
        raise bad_skill(f"its directory can't be opened: {error.strerror}") from error
    with closing(directory):
        files: dict[str, bytes] = {}
        try:
            _read_directory(directory, "", files, _DEPTH)
        except OSError as error:
            raise bad_skill(f"it can't be read: {error.strerror}") from error
    return Snapshot(name, files)


def read_fingerprint(root: int, name: str) -> Fingerprint | None:
    """A fingerprint that changes whenever a skill may have changed, without reading it; None if that can't be told.

    The kernel sets the change time, and nobody else can. But two changes at one moment have the same time, so a skill
    that has just changed has no fingerprint.
    """
    found: list[tuple[str, int, int, int]] = []
    try:
        with closing(open_beneath(root, os.fsencode(name), LIST)) as directory:
            _stat_directory(directory, "", found, _DEPTH)
    except OSError:
        return None
    if len(found) > MOST_FILES or max(changed for *_, changed in found) > time.time_ns() - _SETTLED_NS:
        return None
    return tuple(found)


def check_files(files: Mapping[str, bytes]) -> None:
    """Refuse files that could not be read back as a skill. Raises Denied if they could not."""
    if len(files) > MOST_FILES or sum(map(len, files.values())) > MOST_BYTES:
        raise bad_skill(f"it has more than {MOST_FILES} files or {MOST_BYTES} bytes")
    for path, data in files.items():
        for name in path.split("/"):
            _check_file_name(name)
        _check_text(path, data)


def unknown_skill(name: str) -> Denied:
    """The refusal of an unknown skill's name."""
    return Denied("unknown_skill", f"There is no skill {name!a}.", hint="See `gloveport skills list`, or search_tools.")


def _stat_directory(directory: int, path: str, found: list[tuple[str, int, int, int]], depth: int) -> None:
    status = os.fstat(directory)
    found.append((path, status.st_ino, status.st_size, status.st_ctime_ns))
    with os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries)
    for name in names[: MOST_FILES + 1]:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode) and depth > 1 and len(found) <= MOST_FILES:
            with closing(open_beneath(directory, os.fsencode(name), LIST)) as below:
                _stat_directory(below, f"{path}{name}/", found, depth - 1)
        else:
            found.append((f"{path}{name}", status.st_ino, status.st_size, status.st_ctime_ns))


def _read_directory(directory: int, above: str, files: dict[str, bytes], depth: int) -> None:
    with os.scandir(directory) as found:
        names = sorted(entry.name for entry in found)
    for name in names:
        _check_file_name(name)
        path, status = f"{above}{name}", os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            if depth == 1:
                raise bad_skill(f"its directories are nested deeper than {_DEPTH}")
            with closing(open_beneath(directory, os.fsencode(name), LIST)) as below:
                _read_directory(below, f"{path}/", files, depth - 1)
        elif not stat.S_ISREG(status.st_mode):
            raise bad_skill(
                f"{one_line(path, _MOST_NAME_CHARS)} is neither a file nor a directory", hint="Links are not followed."
            )
        else:
            room = MOST_BYTES - sum(map(len, files.values()))
            files[path] = _read_file(directory, name, room)
            if len(files) > MOST_FILES:
                raise bad_skill(f"it has more than {MOST_FILES} files")
            _check_text(path, files[path])


def _read_file(directory: int, name: str, room: int) -> bytes:
    with closing(open_beneath(directory, os.fsencode(name), READ)) as descriptor:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # another file lies there by now
            raise bad_skill(f"{one_line(name, _MOST_NAME_CHARS)} is no file")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(room + 1)
    if len(data) > room:
        raise bad_skill(f"it has more than {MOST_BYTES} bytes")
    return data


def _check_file_name(name: str) -> None:
    if name in ("", ".", "..") or "/" in name or not is_visible(name) or len(os.fsencode(name)) > _NAME_BYTES:
        raise bad_skill(f"a file of it is called {one_line(name, _MOST_NAME_CHARS)}, which is no plain name")


def _check_text(path: str, data: bytes) -> None:
    """Refuse a text with invisible characters. A file with a NUL is no text: its control characters are allowed."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    if hidden := find_hidden(_CONTROL.sub("", text) if "\x00" in text else text):
        raise bad_skill(
            f"{one_line(path, _MOST_NAME_CHARS)} has a character that does not show: {hidden}",
            hint="An instruction can hide in such: take it out.",
        )
