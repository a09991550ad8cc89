"""Keeps files that programs left in ``/out``, for a while and within bounds: each for its program's caller.

The files of one run lie in one file without a name, so a dead server leaves nothing behind; little stays in memory. An
id has 128 random bits, and works for its owner alone: for anybody else there is no such file. Without room, the oldest
files of the same owner go first, then the oldest of the owner with the most. Nothing here survives the server.
"""

import hashlib
import os
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from gloveport.artifacts.media_types import HEAD_BYTES, find_type
from gloveport.image_header import read_size
from gloveport.late_pattern import late_pattern
from gloveport.model.artifact import Artifact
from gloveport.spooled_bytes import SpooledBytes

PREFIX: Final = "artifact://"
_URI: Final = late_pattern(rf"{PREFIX}([0-9a-f]{{32}})/([0-9]{{1,3}})")
_IN_MEMORY_BYTES: Final = 1 << 16
_ID_BYTES: Final = 16


class ArtifactBounds(Struct, frozen=True, kw_only=True):
    """How much is kept, and for how long.

    Attributes:
        seconds: A file is forgotten after so long.
        caller_bytes: Of one caller.
        total_bytes: Of all.
        runs: How many runs' files are kept, with one descriptor each.
    """

    seconds: float = 3600
    caller_bytes: int = 128 << 20
    total_bytes: int = 512 << 20
    runs: int = 256


class Preview(Struct, frozen=True, kw_only=True):
    """A smaller picture in place of one that is too large to be shown."""

    mime_type: str
    data: bytes


class Bundle(Struct, eq=False, dict=True):
    """The files that one run has left, while they are read and then kept.

    Attributes:
        directory: Host directory for the nameless file.
        owner: Whose it is; opaque.
        previews: Smaller pictures for those that are too large to be shown, by file number.
    """

    directory: Path
    owner: str
    id: str = field(default_factory=lambda: os.urandom(_ID_BYTES).hex())
    files: list[Artifact] = field(default_factory=list)
    previews: dict[int, Preview] = field(default_factory=dict)
    size: int = 0
    added: float = field(default_factory=time.monotonic)
    _offsets: list[int] = field(default_factory=list)
    _digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    @cached_property
    def _content(self) -> SpooledBytes:
        return SpooledBytes(directory=self.directory, most_in_memory=_IN_MEMORY_BYTES)

    def begin(self) -> None:
        """Begin the next file: later writes are its content."""
        self._offsets.append(self.size)
        self._digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        """Append bytes to the current file. Raises OSError if the disk is full."""
        self._digest.update(data)
        self._content.append(data)
        self.size += len(data)

    def end(self, path: str, shown_path: str, about: str = "") -> Artifact:
        """End the current file, and return its metadata. Its name, ``path``, decides its type where its content does
        not; ``about`` is one printable line.
        """
        offset, number = self._offsets[-1], len(self._offsets)
        head = self._content.read(offset, min(HEAD_BYTES, self.size - offset))
        kind = find_type(path, head)
        size = read_size(kind, head) if kind.startswith("image/") and kind != "image/svg+xml" else None
        artifact = Artifact(
            uri=f"{PREFIX}{self.id}/{number}",
            path=shown_path,
            mime_type=kind,
            bytes=self.size - offset,
            sha256=self._digest.hexdigest(),
            width=size[0] if size else None,
            height=size[1] if size else None,
            about=about,
        )
        self.files.append(artifact)
        return artifact

    def read(self, number: int, offset: int, most: int) -> bytes:
        """Read so many bytes of a file from an offset. ``number``: from 1 on."""
        remaining_bytes = max(0, self.files[number - 1].bytes - offset)
        return self._content.read(self._offsets[number - 1] + offset, min(most, remaining_bytes))

    def close(self) -> None:
        """Forget everything."""
        self._content.close()
        self.previews.clear()


class Found(Struct, frozen=True):
    """One file that is kept."""

    bundle: Bundle
    number: int

    @property
    def artifact(self) -> Artifact:
        """What is known of the file."""
        return self.bundle.files[self.number - 1]

    @property
    def preview(self) -> Preview | None:
        """The picture that is shown in its place, where it is too large."""
        return self.bundle.previews.get(self.number)

    def read(self, offset: int, most: int) -> bytes:
        """So many bytes from an offset on."""
        return self.bundle.read(self.number, offset, most)


class ArtifactStore:
    """The files of one server."""

    def __init__(self, bounds: ArtifactBounds, directory: Path) -> None:
        self.bounds = bounds
        self.directory = directory
        self._bundles: dict[str, Bundle] = {}

    def keep(self, bundle: Bundle) -> bool:
        """Keep the files of a run, and forget others to make room. False if they alone are too large."""
        if bundle.size > min(self.bounds.caller_bytes, self.bounds.total_bytes):
            bundle.close()
            return False
        self._bundles[bundle.id] = bundle
        self._forget_old()
        while self._size_of(own := self._of(bundle.owner)) > self.bounds.caller_bytes:
            self._forget(own[0])
        while self._size_of(all_of := [*self._bundles.values()]) > self.bounds.total_bytes or (
            len(all_of) > self.bounds.runs
        ):
            owners = [one.owner for one in all_of]  # between owners with equally much, the one with the older files
            largest = max(owners, key=lambda owner: (self._size_of(self._of(owner)), len(self._of(owner))))
            self._forget(self._of(largest)[0])
        return bundle.id in self._bundles

    def find(self, uri: str, owner: str) -> Found | None:
        """The file of this URI, if it is this owner's and still kept."""
        self._forget_old()
        match = _URI.fullmatch(uri)
        bundle = self._bundles.get(match[1]) if match else None
        if match is None or bundle is None or bundle.owner != owner or not 0 < int(match[2]) <= len(bundle.files):
            return None
        return Found(bundle, int(match[2]))

    def list_files(self, owner: str) -> list[Artifact]:
        """List this owner's kept files, those of the newest run first."""
        self._forget_old()
        return [file for bundle in reversed(self._of(owner)) for file in bundle.files]

    def end_of(self, owner: str) -> None:
        """Forget all files of this owner, who is gone for good."""
        for bundle in self._of(owner):
            self._forget(bundle)

    def close(self) -> None:
        """Forget all."""
        for bundle in [*self._bundles.values()]:
            self._forget(bundle)

    def _of(self, owner: str) -> Sequence[Bundle]:
        """This owner's, the oldest first."""
        return [bundle for bundle in self._bundles.values() if bundle.owner == owner]

    @staticmethod
    def _size_of(bundles: Sequence[Bundle]) -> int:
        return sum(bundle.size + sum(len(one.data) for one in bundle.previews.values()) for bundle in bundles)

    def _forget_old(self) -> None:
        now = time.monotonic()
        for bundle in [one for one in self._bundles.values() if now - one.added > self.bounds.seconds]:
            self._forget(bundle)

    def _forget(self, bundle: Bundle) -> None:
        del self._bundles[bundle.id]
        bundle.close()
