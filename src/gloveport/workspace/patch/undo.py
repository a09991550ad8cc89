"""What the last changes replaced, so that they can be taken back: a file each in the directory of the journal, bounded.

An entry is one line, and the old contents behind it. Which entry is the last is told by the journal, so that it becomes
one at the very moment of its commit. Files are overwritten in turn. They are not forced to the disk: after a power cut
an entry may be torn; then its checksums do not fit, and it is none. Or the journal is older than the entries, for that
of a change of one name is not forced to the disk either; so an entry goes as soon as its change is no more
(``restoring.latest``).
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, Final

from pydantic import BaseModel, ConfigDict

from gloveport.workspace.patch.attributes import Attributes
from gloveport.workspace.patch.seal import sealed, unsealed
from gloveport.workspace.patch.target import Target
from gloveport.workspace.patch.text import revision

ENTRIES: Final = 16
LARGE: Final = 1 << 20
"""An entry of more bytes stays alone: it takes the place of all the others. It has at most what one change may have."""

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_EMPTY: Final = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Kept(BaseModel):
    """What one file was before a change.

    Attributes:
        path: Of the file.
        after: Revision that the change gave it; None where it went.
        before: Revision that it had; None where it was not.
        size: Of the old content, in bytes.
        attributes: Of the old file.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    after: str | None
    before: str | None
    size: int
    attributes: Attributes | None


class _Head(BaseModel):
    number: int
    files: tuple[Kept, ...]
    made: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One change that can be taken back.

    Attributes:
        files: What each file was, with its old content.
        made: Directories that were made for it, the outermost first.
    """

    files: tuple[tuple[Kept, bytes | None], ...]
    made: tuple[str, ...]


def keep(directory: int, number: int, targets: Sequence[Target], made: Sequence[str]) -> None:
    """Keep what is about to be replaced, in place of what was kept ``ENTRIES`` changes ago.

    Raises:
        OSError: There is no space.
    """
    head = _Head(number=number, files=tuple(map(_kept, targets)), made=tuple(made))
    _write(directory, head, [target.before.content for target in targets if target.before])


def adopt(directory: int, number: int, revisions: Mapping[str, str]) -> None:
    """Take other revisions, by path, for those that a change gave its files: what has run on them belongs to it.

    Raises:
        OSError: There is no space.
    """
    kept = entry(directory, number)
    if kept is None:
        return
    files = (
        one.model_copy(update={"after": one.after and revisions.get(one.path, one.after)}) for one, _ in kept.files
    )
    head = _Head(number=number, files=tuple(files), made=kept.made)
    _write(directory, head, [content for _, content in kept.files if content is not None])


def _write(directory: int, head: _Head, contents: Sequence[bytes]) -> None:
    if sum(map(len, contents)) > LARGE:
        for slot in range(ENTRIES):
            with suppress(FileNotFoundError):
                os.unlink(_file(slot), dir_fd=directory)
    with os.fdopen(os.open(_file(head.number), _WRITE, 0o600, dir_fd=directory), "wb") as file:
        if os.fstat(file.fileno()).st_size > LARGE:
            file.truncate()
        file.write(sealed(head.model_dump_json().encode()))
        file.writelines(contents)


def forget(directory: int, number: int) -> None:
    """What was kept under a number can't be taken back: it was, or it has not happened."""
    with suppress(FileNotFoundError):
        os.close(os.open(_file(number), _EMPTY, dir_fd=directory))


def forget_beyond(directory: int, number: int) -> None:
    """The same of all that is kept under larger numbers."""
    for slot in range(ENTRIES):
        with suppress(FileNotFoundError), _opened(directory, slot) as file:
            head = _head(file)
            if head is not None and head.number > number:
                forget(directory, slot)


def entry(directory: int, number: int) -> Entry | None:
    """What was kept under a number, if it is still there and whole."""
    try:
        opened = _opened(directory, number)
    except FileNotFoundError:
        return None
    with opened as file:
        head = _head(file)
        if head is None or head.number != number:
            return None
        files = [(kept, None if kept.before is None else file.read(kept.size)) for kept in head.files]
    if any(content is not None and revision(content) != kept.before for kept, content in files):
        return None
    return Entry(tuple(files), head.made)


def _opened(directory: int, number: int) -> BinaryIO:
    return os.fdopen(os.open(_file(number), _READ, dir_fd=directory), "rb")


def _head(file: BinaryIO) -> _Head | None:
    """The first line of an entry; None where it is torn."""
    text = unsealed(file.readline())
    return None if text is None else _Head.model_validate_json(text)


def _file(number: int) -> str:
    return f"undo-{number % ENTRIES}"


def _kept(target: Target) -> Kept:
    before, after = target.before, target.content
    return Kept(
        path=target.place.path,
        after=None if after is None else revision(after),
        before=revision(before.content) if before else None,
        size=len(before.content) if before else 0,
        attributes=before.attributes if before else None,
    )
