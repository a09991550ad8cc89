"""Walks the directories below one, upper levels first, within bounds.

Each directory is opened by its path, and skipped if that has become a link; so a walk follows no link and stays inside.
Entries are described while their directory is open. Only the directories still to be read are kept. Names, their length
and the time are bounded: a program in the sandbox can make millions, each four kilobytes long.
"""

import os
import stat
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.gitignore import Ignore, Kind, is_ignored, read_ignore
from gloveport.workspace.files.spelling import raw, spell_path
from gloveport.workspace.files.tree import Opened, Tree

_KINDS: Final[dict[int, Kind]] = {stat.S_IFDIR: "directory", stat.S_IFREG: "file", stat.S_IFLNK: "symlink"}


class WalkBounds(Struct, frozen=True):
    """The bounds of one walk.

    Attributes:
        names: How many names are looked at.
        memory: How many bytes the found paths may take in all, though not all are kept at a time.
        seconds: How long it may take.
        rules: How many bytes of .gitignore files count.
    """

    names: int = 200_000
    memory: int = 1 << 26
    seconds: float = 10.0
    rules: int = 1 << 18


USUAL: Final = WalkBounds()


class WalkEntry(Struct, frozen=True):
    """A file or directory below the start: a link is not followed.

    Attributes:
        path: Relative to the root, in canonical spelling.
        size: In bytes.
        modified: In nanoseconds since 1970.
        hidden: Whether its name begins with a dot.
        left_out: Whether a rule leaves it out.
        ignored: Whether a rule leaves out it, or a directory above it.
        target: A link's target, in the spelling of names; empty if it is no link.
    """

    path: str
    kind: Kind
    size: int
    modified: int
    hidden: bool
    left_out: bool
    ignored: bool
    target: str


class _Directory(Struct, frozen=True):
    path: str
    depth: int
    ignored: bool
    ignores: tuple[Ignore, ...]
    """Rules of the directories above, the nearest first."""


class Walk(Struct, kw_only=True):
    """One walk.

    Attributes:
        hidden: Whether hidden files are included. The start itself may be hidden or ignored: the caller has named it.
        ignored: Whether files that a .gitignore leaves out are included.
        depth: How many levels; 1 is what lies in the directory itself.
        cut: Why the walk ended early; None where it did not.
        unreadable: How many directories could not be read.
        unruled: How many directories have rules that did not count.
    """

    tree: Tree
    hidden: bool = False
    ignored: bool = False
    depth: int = 4096
    bounds: WalkBounds = USUAL
    cut: Literal["names", "time"] | None = None
    unreadable: int = 0
    unruled: int = 0
    _names: int = 0
    _memory: int = 0
    _rules: int = 0
    _until: float = 0.0
    _waiting: deque[_Directory] = field(default_factory=deque)

    def below(self, start: Opened) -> Iterator[WalkEntry]:
        """All entries below a directory, upper levels first, otherwise unordered."""
        self._until = time.monotonic() + self.bounds.seconds
        self._waiting.append(self._first(start.path))
        while self._waiting and self.cut is None:
            directory = self._waiting.popleft()
            try:
                with self.tree.open_directory(directory.path) as opened:
                    if opened.path == directory.path:
                        yield from self._inside(opened, directory)
            except WorkspaceError as error:
                self.unreadable += error.code not in {"NOT_FOUND", "NOT_A_DIRECTORY"}  # these mean that it is gone
            except OSError:
                self.unreadable += 1

    def _first(self, path: str) -> _Directory:
        """The start, with the rules of all that is above it."""
        ignores: tuple[Ignore, ...] = ()
        above, inside = ".", False
        parts = [] if path == "." else path.split("/")
        for number in range(1, len(parts) + 1):
            ignores = self._with_rules_of(above, ignores)
            above = "/".join(parts[:number])
            inside = inside or is_ignored(ignores, raw(above), "directory")
        return _Directory(path, 0, inside, ignores)

    def _with_rules_of(self, path: str, ignores: tuple[Ignore, ...]) -> tuple[Ignore, ...]:
        if self._rules >= self.bounds.rules:
            self.unruled += 1
            return ignores
        if (rules := read_ignore(self.tree, path)) is None:
            return ignores
        self._rules += rules.size
        return (rules, *ignores)

    def _inside(self, opened: Opened, directory: _Directory) -> Iterator[WalkEntry]:
        ignores = directory.ignores
        with suppress(FileNotFoundError):  # checked first: a failing open costs more
            os.stat(".gitignore", dir_fd=opened.descriptor, follow_symlinks=False)
            ignores = self._with_rules_of(directory.path, ignores)
        here = replace(directory, ignores=ignores)
        with os.scandir(opened.descriptor) as entries:
            for entry in entries:
                self._count()
                if self.cut is not None:
                    return
                if entry.name.startswith(".") and not self.hidden:
                    continue
                found = _describe_entry(entry, opened.descriptor, here)
                if found is None or (found.left_out and not self.ignored):
                    continue
                self._memory += sys.getsizeof(found.path) + sys.getsizeof(found.target)
                yield found
                if found.kind == "directory" and directory.depth + 1 < self.depth:
                    self._waiting.append(_Directory(found.path, directory.depth + 1, found.ignored, ignores))

    def _count(self) -> None:
        self._names += 1
        if self._names > self.bounds.names or self._memory > self.bounds.memory:
            self.cut = "names"
        elif time.monotonic() > self._until:
            self.cut = "time"


def _describe_entry(entry: "os.DirEntry[str]", descriptor: int, here: _Directory) -> WalkEntry | None:
    """Describe an entry of an open directory; None if it is gone."""
    name = os.fsencode(entry.name)
    path = name if here.path == "." else raw(here.path) + b"/" + name
    try:
        status = entry.stat(follow_symlinks=False)
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "other")
        target = os.readlink(name, dir_fd=descriptor) if kind == "symlink" else b""
    except OSError:
        return None
    left_out = is_ignored(here.ignores, path, kind)
    return WalkEntry(
        path=spell_path(path),
        kind=kind,
        size=status.st_size,
        modified=status.st_mtime_ns,
        hidden=name.startswith(b"."),
        left_out=left_out,
        ignored=left_out or here.ignored,
        target=spell_path(target),
    )
