"""The search for what commands must not write. They may change what is searched meanwhile: nothing is followed."""

import contextlib
import os
import stat
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from posixpath import dirname, expanduser, join, normpath
from typing import Final, TypeAlias

from gloveport.policy.protected import DIRECTORIES, FILES
from gloveport.workspace import gitdirectory

_MOST_DIRECTORIES: Final = 4096
_MOST_NAMES: Final = 100_000
_DEPTH: Final = 4
_UNINTERESTING: Final = frozenset(
    {".cache", ".mypy_cache", ".nox", ".pytest_cache", ".ruff_cache", ".tox", ".venv", "__pycache__", "build", "dist"}
    | {"node_modules", "site-packages", "target", "venv", "vendor"}
)
"""Directories in which nobody opens a shell or an editor."""

_LIST: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Mark: TypeAlias = tuple[int, int, int, int, int]
"""Device and inode of a file, its size, when it was changed last, which nobody can forge, and how many names it has."""


@dataclass(kw_only=True)
class Search:
    """One search, and what it has found; ``keeping.Found`` says what of it means what.

    Attributes:
        exempt: Names and paths that are not kept.
        root: Descriptor of the workspace.
        where: Its path.
    """

    exempt: AbstractSet[str]
    root: int
    where: bytes
    read_only: dict[bytes, Mark] = field(default_factory=dict)
    pinned: set[bytes] = field(default_factory=set)
    links: set[bytes] = field(default_factory=set)
    repositories: set[bytes] = field(default_factory=set)
    removed: set[bytes] = field(default_factory=set)
    checkouts: set[bytes] = field(default_factory=set)
    """Working trees that were looked at, since one may name another, and itself."""

    left: int = _MOST_DIRECTORIES
    names_left: int = _MOST_NAMES

    def look(self, descriptor: int, path: bytes, depth: int) -> None:
        """Look at a directory and what lies below it. Nothing is followed."""
        self.left -= 1
        below: list[bytes] = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                self.names_left -= 1
                if self.names_left <= 0:
                    break
                name = entry.name
                lowered = name.lower()
                if lowered == ".git" or lowered in FILES or lowered in DIRECTORIES:
                    self._protect(descriptor, path, name)
                elif depth < _DEPTH and name not in _UNINTERESTING and entry.is_dir(follow_symlinks=False):
                    below.append(os.fsencode(name))
        if b"objects" in below and gitdirectory.is_git(descriptor):
            self.protect_git(descriptor, path)
        for raw in below:
            if self.left <= 0:
                return
            with _opened(descriptor, raw) as child:
                if child is not None:
                    self.look(child, _join(path, raw), depth + 1)

    def protect_git(self, git: int, path: bytes) -> None:
        """The parts of a git directory by which git runs something, and of those of its submodules and worktrees."""
        if path in self.repositories:
            return
        if self._is_of_worktree(path):  # it leads to its repository by its commondir, and shall
            self._protect_parts(git, path)
            return
        if gitdirectory.is_git(git):
            self.repositories.add(path)
            if gitdirectory.complete(git):
                self.removed.add(_join(path, b"commondir"))
        self._protect_parts(git, path)
        with _opened(git, b"modules") as modules:
            self._protect_modules(modules, _join(path, b"modules"), _DEPTH)
        with _opened(git, b"worktrees") as worktrees:
            for name in gitdirectory.names(worktrees):
                with _opened(worktrees, name) as one:
                    if one is not None:
                        self._protect_parts(one, _join(path, b"worktrees/" + name))

    def _is_of_worktree(self, path: bytes) -> bool:
        above, _, kind = dirname(path).rpartition(b"/")
        with descended(self.root, above) as git:
            return kind == b"worktrees" and git is not None and gitdirectory.is_git(git)

    def _protect_parts(self, git: int, path: bytes) -> None:
        self._pin(path)
        for raw in gitdirectory.PARTS:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                status = os.stat(raw, dir_fd=git, follow_symlinks=False)
                if stat.S_ISLNK(status.st_mode):
                    self._link(git, path, raw)
                else:
                    self._keep(_join(path, raw), status)
        checkout = dirname(path) if path.rpartition(b"/")[2].lower() == b".git" else path
        self._protect_named(path, checkout, gitdirectory.text(git, b"config"), _DEPTH)
        self._keep_targets(_join(path, b"hooks"))

    def keep_there(self, path: bytes, *kinds: int) -> None:
        """Keep what lies there, where that is a file, or of these kinds."""
        above, _, name = path.rpartition(b"/")
        with descended(self.root, above) as directory, contextlib.suppress(OSError):
            if directory is not None:
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                if stat.S_IFMT(status.st_mode) in (kinds or (stat.S_IFREG, stat.S_IFDIR)):
                    self._keep(path, status)

    def _protect(self, descriptor: int, above: bytes, name: str) -> None:
        path = _join(above, os.fsencode(name))
        if name in self.exempt or os.fsdecode(path) in self.exempt:
            return
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            kind = status.st_mode
            if stat.S_ISLNK(kind):
                self._link(descriptor, above, os.fsencode(name))
            elif stat.S_ISDIR(kind) and name.lower() == ".git":
                with _opened(descriptor, os.fsencode(name)) as git:
                    if git is not None:
                        self.protect_git(git, path)
            elif stat.S_ISDIR(kind) or stat.S_ISREG(kind):
                self._keep(path, status)
                if name.lower() == ".git":
                    self._protect_elsewhere(above, gitdirectory.text(descriptor, os.fsencode(name)))
                elif name.lower() == ".gitmodules":
                    for value in gitdirectory.values(gitdirectory.text(descriptor, os.fsencode(name)), b"path"):
                        self._protect_checkout(self._inside(above, value))

    def _protect_modules(self, modules: int | None, path: bytes, depth: int) -> None:
        """The git directories of submodules, whose names may be paths."""
        for name in gitdirectory.names(modules):
            with _opened(modules, name) as child:
                self.left -= 1
                if child is None or self.left <= 0:
                    continue
                if gitdirectory.is_git(child):
                    self.protect_git(child, _join(path, name))
                elif depth:
                    self._protect_modules(child, _join(path, name), depth - 1)

    def _protect_named(self, directory: bytes, checkout: bytes, configuration: bytes, depth: int) -> None:
        """What a configuration names in the workspace: what git runs, hooks, more configuration, a working tree."""
        for word in gitdirectory.programs(configuration):
            self._keep_named(self._inside(checkout, word), stat.S_IFREG)
        for word in gitdirectory.values(configuration, b"hookspath"):
            self._keep_named(self._inside(checkout, word), stat.S_IFDIR)
            self._keep_targets(self._inside(checkout, word))
        for word in gitdirectory.values(configuration, b"worktree"):
            self._protect_checkout(self._inside(directory, word))
        for word in gitdirectory.values(configuration, b"path") if depth else []:
            place = self._inside(directory, word)
            if place and place not in self.read_only:
                self._keep_named(place, stat.S_IFREG)
                with descended(self.root, dirname(place)) as above:
                    if above is not None:
                        more = gitdirectory.text(above, place.rpartition(b"/")[2])
                        self._protect_named(dirname(place), checkout, more, depth - 1)

    def _protect_checkout(self, path: bytes | None) -> None:
        """The ``.git`` of a working tree, wherever that lies."""
        if path is not None and path not in self.checkouts:
            self.checkouts.add(path)
            with descended(self.root, path) as directory:
                if directory is not None:
                    self._protect(directory, path, ".git")

    def _protect_elsewhere(self, above: bytes, file: bytes) -> None:
        """The git directory that a ``.git`` which is a file leads to."""
        path = self._inside(above, file.removeprefix(b"gitdir:").strip())
        if path is not None and path not in self.repositories:
            with descended(self.root, path) as git:
                if git is not None:
                    self.protect_git(git, path)

    def _link(self, descriptor: int, above: bytes, name: bytes) -> None:
        """A link can't be kept, but what it leads to."""
        self.links.add(_join(above, name))
        self._keep_target(descriptor, above, name)

    def _keep_targets(self, path: bytes | None) -> None:
        """What the links in a directory lead to."""
        if path is not None:
            with descended(self.root, path) as directory:
                for name in gitdirectory.names(directory):
                    self._keep_target(directory, path, name)

    def _keep_target(self, descriptor: int | None, above: bytes, name: bytes) -> None:
        with contextlib.suppress(OSError):
            target = self._inside(join(above, dirname(name)), os.readlink(name, dir_fd=descriptor))
            self._keep_named(target, stat.S_IFREG, stat.S_IFDIR)

    def _keep_named(self, path: bytes | None, *kinds: int) -> None:
        if path and not {os.fsdecode(path), os.fsdecode(path.rpartition(b"/")[2])} & self.exempt:
            self.keep_there(path, *kinds)

    def _inside(self, above: bytes, word: bytes) -> bytes | None:
        """Where in the workspace a path leads, by its text alone; None where that is outside."""
        whole = normpath(join(self.where, above, expanduser(word)))
        return whole[len(self.where) + 1 :] if whole.startswith(self.where + b"/") and b"\0" not in whole else None

    def _keep(self, path: bytes, status: os.stat_result) -> None:
        names = 1 if stat.S_ISDIR(status.st_mode) else status.st_nlink
        self.read_only[path] = (status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns, names)
        above = path.rpartition(b"/")[0]
        if above:
            self._pin(above)

    def _pin(self, path: bytes) -> None:
        while path and path not in self.pinned:
            self.pinned.add(path)
            path = path.rpartition(b"/")[0]


@contextlib.contextmanager
def _opened(above: int | None, name: bytes) -> Iterator[int | None]:
    """A directory that is no link; None where there is none."""
    descriptor = None
    with contextlib.suppress(OSError):
        descriptor = None if above is None else os.open(name, _LIST, dir_fd=above)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


@contextlib.contextmanager
def descended(root: int, path: bytes) -> Iterator[int | None]:
    """A directory below, through no link; None where there is none."""
    with contextlib.ExitStack() as stack:
        descriptor: int | None = stack.enter_context(_opened(root, b"."))
        for name in filter(None, path.split(b"/")):
            descriptor = stack.enter_context(_opened(descriptor, name))
        yield descriptor


def _join(above: bytes, name: bytes) -> bytes:
    return above + b"/" + name if above else name
