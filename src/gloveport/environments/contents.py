"""A content-addressed store: each content is there once, under its digest, and only this process writes it.

A content is copied from a file that a sandbox has left: it may be an attack, and may still be open somewhere.
"""

import functools
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from gloveport.errors import Denied

_CHUNK: Final = 1 << 20
_EXECUTABLE: Final = ".x"


def path_of(name: str, store: Path) -> str:
    """The path of a content in a store, by its name."""
    return f"{store}/{name[:2]}/{name}"


def keep_file(path: str, directory: int, entry: os.stat_result, store: Path) -> str:
    """Store the content of a file; returns its name there: its digest, and ``.x`` if the file is executable.
    ``directory`` is the open one that it lies in, ``entry`` its status when it was found; refusals name ``path``.

    Raises:
        Denied: Another file lies there by now, or the file changes.
        OSError: It can't be read or written.
    """
    mode = 0o555 if entry.st_mode & 0o100 else 0o444
    content: bytes | None = None
    if entry.st_size <= _CHUNK:  # as most are: read once; the same bytes are digested and kept
        content = b"".join(_read(path, directory, entry))
        digest = hashlib.sha256(content).hexdigest()
        chunks = functools.partial(iter, (content,))
    else:
        digest = digest_entry(path, directory, entry)
        chunks = functools.partial(_read, path, directory, entry)
    name = f"{digest}{_EXECUTABLE if mode & 0o100 else ''}"
    place = path_of(name, store)
    if not _is_kept(place, entry.st_size, digest, content):
        with suppress(FileExistsError):
            os.mkdir(os.path.dirname(place), mode=0o700)  # noqa: PTH102, PTH120 - many, and pathlib takes its time
        _write_copy(path, chunks(), place, mode, digest)
    return name


def _is_kept(place: str, size: int, digest: str, content: bytes | None) -> bool:
    """Whether the store has this content unchanged. Comparing is faster than digesting."""
    with suppress(OSError), open(place, "rb", buffering=0) as file:  # noqa: PTH123 - as above
        if content is not None:
            return file.read(size + 1) == content
        return os.fstat(file.fileno()).st_size == size and hashlib.file_digest(file, "sha256").hexdigest() == digest
    return False


def _write_copy(path: str, chunks: Iterable[bytes], place: str, mode: int, digest: str) -> None:
    """Write a file whose digest is known. The copy has that digest, or it is not made."""
    part = f"{place}.{os.getpid()}.part"
    hasher = hashlib.sha256()
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            for chunk in chunks:
                hasher.update(chunk)
                file.write(chunk)
            os.fchmod(descriptor, mode)
        _refuse_change(path, digest, hasher.hexdigest())
        os.replace(part, place)  # noqa: PTH105 - as above
    except BaseException:
        os.unlink(part)  # noqa: PTH108 - as above
        raise


def _refuse_change(path: str, digest: str, now: str) -> None:
    if now != digest:
        raise refusal(path, "changes while it is read")


def digest_in(name: str) -> str:
    """The digest in the name of a content."""
    return name.removesuffix(_EXECUTABLE)


def is_whole(name: str, store: Path) -> bool:
    """Whether a store has the content of this name unchanged."""
    with suppress(OSError), open(path_of(name, store), "rb", buffering=0) as file:  # noqa: PTH123 - as above
        return hashlib.file_digest(file, "sha256").hexdigest() == digest_in(name)
    return False


def digest_entry(path: str, directory: int, entry: os.stat_result) -> str:
    """Digest of a file that was found in a directory.

    Raises:
        Denied: Another file lies there by now, or the file grows.
    """
    hasher = hashlib.sha256()
    for chunk in _read(path, directory, entry):
        hasher.update(chunk)
    return hasher.hexdigest()


def _read(path: str, directory: int, entry: os.stat_result) -> Iterator[bytes]:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(name_of(path), flags, dir_fd=directory)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor, not a path
        found = os.fstat(descriptor)
        if (found.st_dev, found.st_ino) != (entry.st_dev, entry.st_ino) or not stat.S_ISREG(found.st_mode):
            raise refusal(path, "is another by now")
        remaining_bytes = entry.st_size
        while chunk := file.read(_CHUNK):
            remaining_bytes -= len(chunk)
            if remaining_bytes < 0:
                raise refusal(path, "grows while it is read")
            yield chunk


def name_of(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def refusal(path: str, why: str, hint: str = "leave out the package that brings it, and tell its makers") -> Denied:
    """The refusal of a tree because of one of its paths."""
    return Denied("environment_refused", f"What was installed is refused: {path} {why}.", hint=hint)
