"""Wheels on disk, and the installed files of each.

Each wheel is installed once, in a sandbox of its own: an attacker who takes that over controls only the files of that
wheel, which are the attacker's anyhow, and none of another wheel. So later environments with the wheel reuse these
files.
"""

import hashlib
import os
import time
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from gloveport.atomic_file import replace_file
from gloveport.environments.lock_files import hold_lock
from gloveport.environments.locks import Wheel
from gloveport.environments.seal import SealedTree, TreeBounds, is_whole, keep_contents
from gloveport.late_libraries import secrets, shutil
from gloveport.user_directories import read_private

MOST_RECORD_BYTES: Final = 1 << 31
"""More than the names and digests of all files that a configuration allows."""

_FORMAT: Final = "1"
"""Part of each name: changes when a wheel would be installed differently."""


class WheelStore(Struct, frozen=True):
    """The wheels below the directory of an ``EnvironmentStore``."""

    root: Path

    def has(self, wheel: Wheel) -> bool:
        """Whether a wheel is stored and matches its digest."""
        try:
            return _digest_of(self._path_of(wheel)) == wheel.sha256
        except FileNotFoundError:
            return False

    def size_of(self, wheel: Wheel) -> int:
        """Size of a stored wheel. Raises FileNotFoundError if it is not stored."""
        return self._path_of(wheel).stat().st_size

    def take(self, wheel: Wheel, place: Path) -> bool:
        """Copy a stored wheel to ``place``; tell whether it was stored and matches its digest."""
        stored_path = self._path_of(wheel)
        try:
            shutil.copyfile(stored_path, place)
        except FileNotFoundError:
            return False
        if _digest_of(place) == wheel.sha256:
            os.utime(stored_path)
            return True
        stored_path.unlink(missing_ok=True)
        place.unlink()
        return False

    def keep(self, wheel: Wheel, place: Path) -> bool:
        """Store a wheel that a sandbox has fetched; tell whether it matches its digest."""
        stored_path = self._path_of(wheel)
        part = stored_path.with_name(f"{stored_path.name}.{secrets.token_hex(4)}.part")
        try:
            source = open_left(place)
        except OSError:
            return False
        try:
            with source, part.open("wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
            if _digest_of(part) != wheel.sha256:
                return False
            part.replace(stored_path)
        finally:
            part.unlink(missing_ok=True)
        return True

    def load_unpacked(self, wheel: Wheel, interpreter: str) -> SealedTree | None:
        """The files of a wheel as it was installed for this interpreter, if they are stored, complete and unchanged."""
        record = self._record_of(wheel, interpreter)
        with suppress(OSError, msgspec.DecodeError, RecursionError):
            found = _read_record(record)
            if is_whole(found, self.root / "files"):
                os.utime(record)
                return found
        return None

    def keep_unpacked(self, wheel: Wheel, interpreter: str, source: Path, bounds: TreeBounds) -> SealedTree:
        """Store the files at ``source`` that a sandbox has installed from this wheel, and from nothing else.

        Raises:
            Denied: There is something in it that no environment may hold.
            OSError: It can't be written.
        """
        with hold_lock(self.root / "work" / "files.lock", wait=True):  # as in ``EnvironmentStore.collect``
            found = keep_contents(source, self.root / "files", bounds)
            replace_file(self._record_of(wheel, interpreter), msgspec.json.encode(found))
        return found

    def collect(self, unused_seconds: float) -> set[str]:
        """Remove installed files that were unused for so long; returns the names of all contents of the rest."""
        names = set[str]()
        for record in (self.root / "unpacked").iterdir():
            if time.time() - record.stat().st_mtime >= unused_seconds:
                record.unlink()
                continue
            with suppress(OSError, msgspec.DecodeError, RecursionError):
                names |= {*_read_record(record).files.values()}
        return names

    def _path_of(self, wheel: Wheel) -> Path:
        return self.root / "wheels" / wheel.sha256

    def _record_of(self, wheel: Wheel, interpreter: str) -> Path:
        key = f"{_FORMAT}\0{wheel.file}\0{wheel.sha256}\0{interpreter}"
        return self.root / "unpacked" / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def open_left(path: Path) -> BufferedReader:
    """Open a file that a sandbox has left, through no link, and without waiting for the writer of a FIFO.

    Raises:
        OSError: There is no file; or a directory lies there.
    """
    return open(path, "rb", opener=_open_as_it_is)


def _open_as_it_is(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _read_record(path: Path) -> SealedTree:
    """Raises OSError, DecodeError or RecursionError where what lies there is no record."""
    return msgspec.json.decode(read_private(path, MOST_RECORD_BYTES), type=SealedTree)


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
