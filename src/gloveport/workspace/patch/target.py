"""One name of the workspace, what it means and what it shall mean; and the parts of such a name's path."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from gloveport.workspace.files.tree import Place, raw
from gloveport.workspace.patch.attributes import Attributes


@dataclass(frozen=True, slots=True)
class Original:
    """A file as it was read.

    Attributes:
        content: All of it.
        status: When it was opened.
        attributes: What it had besides.
    """

    content: bytes
    status: os.stat_result
    attributes: Attributes


@dataclass(slots=True)
class Target:
    """One name, what it means, and what it shall mean.

    Attributes:
        place: Held open.
        before: None where nothing is.
        content: None where nothing shall be.
        attributes: Of what shall be there; None: those of what is, or of a new file.
    """

    place: Place
    before: Original | None
    content: bytes | None
    attributes: Attributes | None = None

    @property
    def kept(self) -> Attributes | None:
        """What the content has besides; None of a new file."""
        return self.attributes or (self.before.attributes if self.before else None)

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return self.content != (self.before.content if self.before else None)


def above(path: str) -> str:
    """The path of the directory in which something lies; "." is the root."""
    return path.rpartition("/")[0] or "."


def ancestors(path: str) -> Iterator[str]:
    """All directories above a path, the innermost first; the root is the last."""
    while path != ".":
        path = above(path)
        yield path


def native(path: str) -> str:
    """The last part of a path, as functions of ``os`` take it."""
    return os.fsdecode(raw(path.rpartition("/")[2]))
