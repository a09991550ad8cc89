"""Wheels on disk, and what was installed of each.

A wheel is installed in a sandbox of its own, once: whoever takes that over has what comes out of that wheel, which is
its own anyhow, and nothing of another. So environments that have the wheel later are made of what came out then.
"""

import hashlib
import os
import time
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from gloveport.atomic_file import replace_file
from gloveport.environments.lock_files import hold_lock
from gloveport.environments.locks import Wheel
from gloveport.environments.seal import SealedTree, TreeBounds, is_whole, keep_contents
from gloveport.late_module import late_module

if TYPE_CHECKING:
    import secrets
    import shutil
else:
    shutil = late_module("shutil")
    secrets = late_module("secrets")

_FORMAT: Final = "1"
"""Part of each name: what another Gloveport would install in another way has another."""


class WheelStore(Struct, frozen=True):
    """Below the directory of an ``EnvironmentStore``."""

    root: Path

    def has(self, wheel: Wheel) -> bool:
        """Whether a wheel is here, and is what its digest says."""
        try:
            return _digest_of(self._path_of(wheel)) == wheel.sha256
        except FileNotFoundError:
            return False

    def size_of(self, wheel: Wheel) -> int:
        """Bytes of a wheel that is here.

        Raises:
            FileNotFoundError: It is not.
        """
        return self._path_of(wheel).stat().st_size

    def take(self, wheel: Wheel, place: Path) -> bool:
        """Put a wheel that is here already at ``place``; whether it was, and is what its digest says."""
        kept = self._path_of(wheel)
        try:
            shutil.copyfile(kept, place)
        except FileNotFoundError:
            return False
        if _digest_of(place) == wheel.sha256:
            os.utime(kept)
            return True
        kept.unlink(missing_ok=True)
        place.unlink()
        return False

    def keep(self, wheel: Wheel, place: Path) -> bool:
        """Keep a wheel that a sandbox has fetched; whether it is what its digest says."""
        kept = self._path_of(wheel)
        part = kept.with_name(f"{kept.name}.{secrets.token_hex(4)}.part")
        try:
            source = open_left(place)
        except OSError:
            return False
        try:
            with source, part.open("wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
            if _digest_of(part) != wheel.sha256:
                return False
            part.replace(kept)
        finally:
            part.unlink(missing_ok=True)
        return True

    def load_unpacked(self, wheel: Wheel, interpreter: str) -> SealedTree | None:
        """What was installed of a wheel, if it was and all of it is there as it was.

        Args:
            wheel: Which.
            interpreter: What it was installed for.
        """
        record = self._record_of(wheel, interpreter)
        with suppress(OSError, msgspec.DecodeError):
            found = msgspec.json.decode(record.read_bytes(), type=SealedTree)
            if is_whole(found, self.root / "files"):
                os.utime(record)
                return found
        return None

    def keep_unpacked(self, wheel: Wheel, interpreter: str, source: Path, bounds: TreeBounds) -> SealedTree:
        """Keep what a sandbox has installed of a wheel at ``source``, and of nothing else.

        Raises:
            Denied: There is something in it that no environment may hold.
            OSError: It can't be written.
        """
        with hold_lock(self.root / "work" / "files.lock", wait=True):  # as in ``EnvironmentStore.collect``
            found = keep_contents(source, self.root / "files", bounds)
            replace_file(self._record_of(wheel, interpreter), msgspec.json.encode(found))
        return found

    def collect(self, unused_seconds: float) -> set[str]:
        """Forget what nobody has used for so long of what was installed; the names of all contents of the rest."""
        names = set[str]()
        for record in (self.root / "unpacked").iterdir():
            if time.time() - record.stat().st_mtime >= unused_seconds:
                record.unlink()
                continue
            with suppress(OSError, msgspec.DecodeError):
                names |= {*msgspec.json.decode(record.read_bytes(), type=SealedTree).files.values()}
        return names

    def _path_of(self, wheel: Wheel) -> Path:
        return self.root / "wheels" / wheel.sha256

    def _record_of(self, wheel: Wheel, interpreter: str) -> Path:
        told = f"{_FORMAT}\0{wheel.file}\0{wheel.sha256}\0{interpreter}"
        return self.root / "unpacked" / f"{hashlib.sha256(told.encode()).hexdigest()}.json"


def open_left(path: Path) -> BufferedReader:
    """Open a file that a sandbox has left, through no link, and without a wait for whoever writes to a FIFO.

    Raises:
        OSError: There is none; a directory lies there.
    """
    return open(path, "rb", opener=_open_as_it_is)


def _open_as_it_is(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
