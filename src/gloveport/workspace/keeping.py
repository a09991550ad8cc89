"""What commands must not write although the workspace is theirs to write: found anew before each of them.

``policy.protected`` names it, the fork server mounts it read-only (``guest/zygote.py``, ``kept``). A mount can be moved
or removed as little as it can be written; so all directories above one, up to the workspace, are pinned by mounts too.
What is not there can't be kept. So a repository that lacks a directory of hooks or a configuration is given an empty
one, which means the same, and after a command it is told what has come into being meanwhile.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gloveport.errors import WorkspaceError
from gloveport.policy.protected import DIRECTORIES, FILES, GIT_DIRECTORIES, GIT_FILES
from gloveport.sandbox.base import Kept
from gloveport.workspace.tree import Tree

_MOST_KEPT: Final = 256
_MOST_DIRECTORIES: Final = 4096
_DEPTH: Final = 4
_UNINTERESTING: Final = frozenset(
    {".cache", ".mypy_cache", ".nox", ".pytest_cache", ".ruff_cache", ".tox", ".venv", "__pycache__", "build", "dist"}
    | {"node_modules", "site-packages", "target", "venv", "vendor"}
)
"""Directories in which nobody opens a shell or an editor."""

_LIST: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


Mark: TypeAlias = tuple[int, int, int, int]
"""Device and inode of a file, its size and when it was changed last."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is to be kept.

    Attributes:
        read_only: What is protected, by its path relative to the root; as bytes, for they may be no text. Whoever
            writes to it, or puts another in its place, changes what is told of it here.
        pinned: Paths of the directories above, and of the git directories themselves.
        links: Paths that should be protected, but are symbolic links, which can't be.
        partial: Whether the workspace is too large to look at all of it.
    """

    read_only: Mapping[bytes, Mark]
    pinned: AbstractSet[bytes]
    links: AbstractSet[bytes]
    partial: bool

    def kept(self, target: str) -> tuple[Kept, ...]:
        """For the fork server, with the workspace mounted at ``target``.

        Raises:
            WorkspaceError: It is too much.
        """
        if len(self.read_only) + len(self.pinned) > _MOST_KEPT:
            raise WorkspaceError(
                "SANDBOX_UNAVAILABLE",
                f"the workspace has more than {_MOST_KEPT} places that have to be kept from commands",
                hint="open a directory below it, or exempt some of them in the configuration ([workspace] exempt)",
            )
        places: list[tuple[bytes, Kept]] = [
            *((path, (f"{target}/{os.fsdecode(path)}", "pinned")) for path in self.pinned),
            *((path, (f"{target}/{os.fsdecode(path)}", "read-only")) for path in self.read_only),
        ]
        return tuple(place for _, place in sorted(places))  # what lies above another comes first


@dataclass(kw_only=True)
class _Search:
    exempt: AbstractSet[str]
    read_only: dict[bytes, Mark] = field(default_factory=dict)
    pinned: set[bytes] = field(default_factory=set)
    links: set[bytes] = field(default_factory=set)
    left: int = _MOST_DIRECTORIES

    def look(self, descriptor: int, path: bytes, depth: int) -> None:
        """Look at a directory and what lies below it. Nothing is followed."""
        self.left -= 1
        below: list[bytes] = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                name = entry.name
                lowered = name.lower()
                if lowered == ".git" or lowered in FILES or lowered in DIRECTORIES:
                    self._protect(descriptor, path, name)
                elif depth < _DEPTH and name not in _UNINTERESTING and entry.is_dir(follow_symlinks=False):
                    below.append(os.fsencode(name))
        for raw in below:
            if self.left <= 0:
                return
            with _opened(descriptor, raw) as child:
                if child is not None:
                    self.look(child, _join(path, raw), depth + 1)

    def _protect(self, descriptor: int, above: bytes, name: str) -> None:
        path = _join(above, os.fsencode(name))
        if name in self.exempt or os.fsdecode(path) in self.exempt:
            return
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            kind = status.st_mode
            if stat.S_ISLNK(kind):
                self.links.add(path)
            elif stat.S_ISDIR(kind) and name.lower() == ".git":
                with _opened(descriptor, os.fsencode(name)) as git:
                    if git is not None:
                        self._protect_git(git, path)
            elif stat.S_ISDIR(kind) or stat.S_ISREG(kind):
                self._keep(path, status)

    def _protect_git(self, git: int, path: bytes) -> None:
        """The parts of a git directory by which git runs something, and of those of its submodules."""
        _complete(git)
        self._pin(path)
        for raw in sorted(map(os.fsencode, GIT_FILES | GIT_DIRECTORIES)):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                status = os.stat(raw, dir_fd=git, follow_symlinks=False)
                if stat.S_ISLNK(status.st_mode):
                    self.links.add(_join(path, raw))
                else:
                    self._keep(_join(path, raw), status)
        with _opened(git, b"modules") as modules:
            for name in _names(modules):
                with _opened(modules, name) as module:
                    if module is not None and self.left > 0:
                        self.left -= 1
                        self._protect_git(module, _join(_join(path, b"modules"), name))

    def _keep(self, path: bytes, status: os.stat_result) -> None:
        self.read_only[path] = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        above = path.rpartition(b"/")[0]
        if above:
            self._pin(above)

    def _pin(self, path: bytes) -> None:
        while path and path not in self.pinned:
            self.pinned.add(path)
            path = path.rpartition(b"/")[0]


def find(tree: Tree) -> Found:
    """Look through the workspace. A thread's work: it takes about a millisecond for a hundred directories."""
    search = _Search(exempt=tree.exempt)
    with tree.directory(".") as root:
        search.look(root.descriptor, b"", 0)
    return Found(read_only=search.read_only, pinned=search.pinned, links=search.links, partial=search.left <= 0)


def misplaced(tree: Tree) -> bool:
    """Remove what would make git take its configuration from elsewhere: no git puts it there. Tell whether it was."""
    with tree.directory(".") as root, _opened(root.descriptor, b".git") as git:
        if git is None:
            return False
        try:
            os.unlink(b"commondir", dir_fd=git)
        except OSError:
            return False
        return True


def _complete(git: int) -> None:
    """Give a git directory the empty parts that could be made otherwise, with the owner of the directory."""
    status = os.fstat(git)
    if not _is_git(git):
        return
    with contextlib.suppress(FileExistsError):
        os.mkdir(b"hooks", 0o755, dir_fd=git)
        os.chown(b"hooks", status.st_uid, status.st_gid, dir_fd=git, follow_symlinks=False)
    with contextlib.suppress(FileExistsError):
        made = os.open(b"config", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644, dir_fd=git)
        os.fchown(made, status.st_uid, status.st_gid)
        os.close(made)


def _is_git(directory: int) -> bool:
    names = {*_names(directory)}
    return {b"HEAD", b"objects", b"refs"} <= names


def _names(directory: int | None) -> list[bytes]:
    if directory is None:
        return []
    with os.scandir(directory) as entries:
        return [os.fsencode(entry.name) for entry in entries]


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


def _join(above: bytes, name: bytes) -> bytes:
    return above + b"/" + name if above else name
