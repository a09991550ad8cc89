"""Searches a workspace for protected paths, while commands may change it: no link is followed.

Commands must neither delay the search, nor turn it against the owner. So it goes from the root downwards, and reads a
bounded number of names and bytes. Files that a command has made are found, but their contents are not believed: the
text or link may name any file of the owner's, which commands then could no longer write.
"""

import contextlib
import os
import stat
from collections import deque
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from posixpath import dirname, expanduser, join, normpath
from typing import Final

from msgspec import Struct, field

from gloveport.file_descriptors import closing
from gloveport.openat2 import open_beneath
from gloveport.policy.decisions.protected_names import PARENT_NAMES, Kind, fold_name, kinds_in
from gloveport.workspace.files.descriptors import let_owner_in
from gloveport.workspace.protected import git_directory
from gloveport.workspace.protected.descent import Mark, descend, is_open, join_path, mark_of

_MOST_DIRECTORIES: Final = 4096
_MOST_NAMES: Final = 100_000
_MOST_NAMES_OF_ONE: Final = 20_000
_MOST_TEXT_BYTES: Final = 1 << 20
_MOST_CONFIGS: Final = 32
_DEPTH: Final = 4
_UNINTERESTING: Final = frozenset(
    {".cache", ".mypy_cache", ".nox", ".pytest_cache", ".ruff_cache", ".tox", ".venv", "__pycache__", "build", "dist"}
    | {"node_modules", "site-packages", "target", "venv", "vendor"}
)
"""Directories in which nobody opens a shell or an editor, so they are not searched."""

_MOST_PATH_BYTES: Final = 3840
"""The longest path below the workspace, which with the workspace's own path must fit PATH_MAX."""

_NAME: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Search(Struct, kw_only=True):
    """One search and its results; ``protected_paths.ProtectedPaths`` explains the fields.

    Attributes:
        exempt: Names and paths that are not protected.
        root: Descriptor of the workspace.
        where: Path of the workspace.
        is_made: Tells whether a command has made the file at a path.
    """

    exempt: AbstractSet[str]
    root: int
    where: bytes
    is_made: Callable[[bytes, Mark], bool]
    read_only: dict[bytes, Mark] = field(default_factory=dict)
    pinned: set[bytes] = field(default_factory=set)
    links: set[bytes] = field(default_factory=set)
    made_by_commands: dict[bytes, Mark] = field(default_factory=dict)
    repositories: set[bytes] = field(default_factory=set)
    removed: set[bytes] = field(default_factory=set)
    configs: dict[bytes, bytes] = field(default_factory=dict)
    """Texts of repositories' configurations of which commands get copies."""

    rebases: dict[bytes, bytes] = field(default_factory=dict)
    checkouts: set[bytes] = field(default_factory=set)
    """Working trees that were searched, since one may name another, or itself."""

    closed: dict[bytes, Mark] = field(default_factory=dict)
    """Directories that nobody can access."""

    directories_left: int = _MOST_DIRECTORIES
    names_left: int = _MOST_NAMES
    text_left: int = _MOST_TEXT_BYTES
    rebases_left: int = _MOST_TEXT_BYTES
    is_cut: bool = False
    """Whether a directory had more names than were looked at."""

    @property
    def partial(self) -> bool:
        """Whether the search was incomplete."""
        return self.is_cut or self.directories_left <= 0 or self.text_left <= 0

    def look(self) -> None:
        """Search the workspace, the upper levels first. No link is followed."""
        queue = deque([(b"", 0)])
        while queue and self.directories_left > 0:
            path, depth = queue.popleft()
            self.directories_left -= 1
            with descend(self.root, path) as directory:
                if directory is None:
                    self.protect_closed(path)
                    continue
                below = self._look_into(directory, path)
                if b"objects" in below and git_directory.is_git(directory):
                    self.protect_git(directory, path)
                if depth < _DEPTH:
                    queue.extend((join_path(path, name), depth + 1) for name in below)

    def _look_into(self, directory: int, path: bytes) -> list[bytes]:
        """Protect the entries of a directory; returns the subdirectories to search."""
        kinds = kinds_in(os.fsdecode(path))
        below: list[bytes] = []
        names_left = most = min(_MOST_NAMES_OF_ONE, self.names_left)
        with os.scandir(directory) as entries:
            for entry in entries:
                names_left -= 1
                if names_left <= 0:
                    break
                name = entry.name
                kind = kinds.get(name.lower() if name.isascii() else fold_name(name))
                if kind is not None and self._protect(directory, path, os.fsencode(name), kind):
                    continue
                if name not in _UNINTERESTING and entry.is_dir(follow_symlinks=False):
                    below.append(os.fsencode(name))
        self.names_left -= most - names_left
        if names_left <= 0:  # a command can't hide protected names behind many others
            self.is_cut = True
            for name, kind in kinds.items():
                self._protect(directory, path, os.fsencode(name), kind)
            below += {*map(os.fsencode, PARENT_NAMES)}.difference(below)
        return below

    def protect_git(self, git: int, path: bytes) -> None:
        """Protect the parts of a git directory that make git run programs, and those of its submodules and
        worktrees.
        """
        if path in self.repositories:
            return
        if self._is_of_worktree(path):  # its commondir leads to its repository, as it shall
            self._protect_parts(git, path)
            return
        if git_directory.is_git(git):
            self.repositories.add(path)
            if git_directory.complete(git):
                self.removed.add(join_path(path, b"commondir"))
        self._protect_parts(git, path)
        with descend(git, b"modules") as modules:
            self._protect_modules(modules, join_path(path, b"modules"), _DEPTH)
        with descend(git, b"worktrees") as worktrees:
            for name in git_directory.names(worktrees):
                self.directories_left -= 1
                with descend(worktrees if self.directories_left > 0 else None, name) as one:
                    if one is not None:
                        self._protect_parts(one, join_path(path, b"worktrees/" + name))

    def _is_of_worktree(self, path: bytes) -> bool:
        above, _, kind = dirname(path).rpartition(b"/")
        if kind != b"worktrees":
            return False
        with descend(self.root, above) as git:
            return git is not None and git_directory.is_git(git)

    def _protect_parts(self, git: int, path: bytes) -> None:
        self._pin(path)
        for raw in git_directory.PARTS:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                status = os.stat(raw, dir_fd=git, follow_symlinks=False)
                if stat.S_ISLNK(status.st_mode):
                    self._record_link(git, path, raw, status)
                else:
                    self._record(join_path(path, raw), status)
        with descend(git, b"sl") as sapling:
            if sapling is not None:
                git_directory.remove_translations(sapling)
        self._find_rebase(git, path)
        checkout = dirname(path) if path.rpartition(b"/")[2].lower() == b".git" else path
        text = self._text(git, path, b"config")
        self._copy_config(git, join_path(path, b"config"), text)
        self._protect_named(path, checkout, text, _DEPTH)
        if join_path(path, b"hooks") not in self.made_by_commands:
            self._protect_targets(join_path(path, b"hooks"))

    def _find_rebase(self, git: int, path: bytes) -> None:
        """Note commands that git runs when a rebase goes on."""
        with descend(git if self.rebases_left > 0 else None, b"rebase-merge") as rebase:
            if rebase is not None:
                todo = git_directory.text(rebase, b"git-rebase-todo")
                self.rebases_left -= len(todo)
                if commands := git_directory.rebase_commands(todo):
                    self.rebases[join_path(path, b"rebase-merge/git-rebase-todo")] = commands

    def _copy_config(self, git: int, path: bytes, text: bytes) -> None:
        """Give commands a copy of a configuration, if it is small, and there are few."""
        size = self.read_only[path][2] if path in self.read_only else git_directory.MOST_COPIED_BYTES + 1
        if size <= git_directory.MOST_COPIED_BYTES and len(self.configs) < _MOST_CONFIGS:
            text = text or git_directory.text(git, b"config")  # a command's own is only copied
            if len(text) == size:
                self.configs[path] = text

    def protect_there(self, path: bytes, *kinds: int) -> None:
        """Protect a path, if it is a file, or of these kinds."""
        status = self._status(path)
        if status is not None and stat.S_IFMT(status.st_mode) in (kinds or (stat.S_IFREG, stat.S_IFDIR)):
            self._record(path, status)

    def protect_closed(self, path: bytes) -> None:
        """Protect an inaccessible directory as a whole, if it was inaccessible before any command."""
        status = self._status(path)
        if status is None or not stat.S_ISDIR(status.st_mode) or is_open(status):
            return
        mark = mark_of(status)
        if self.is_made(path, mark):
            self.made_by_commands[path] = mark
        else:
            self.closed[path] = mark
            self._pin(path.rpartition(b"/")[0])

    def _status(self, path: bytes) -> os.stat_result | None:
        """The status of a path, without following a link; None if it is missing, and for the root."""
        above, _, name = path.rpartition(b"/")
        with descend(self.root, above) as directory, contextlib.suppress(OSError):
            if directory is not None and name:
                return os.stat(name, dir_fd=directory, follow_symlinks=False)
        return None

    def give_access(self, path: bytes) -> None:
        """Give its owner access to a pinned directory: by removing that, a command would remove the protection."""
        with contextlib.suppress(OSError):
            if not is_open(os.stat(path, dir_fd=self.root, follow_symlinks=False)):
                with closing(open_beneath(self.root, path, _NAME)) as directory:
                    if os.fstat(directory).st_uid == os.fstat(self.root).st_uid:
                        let_owner_in(directory)

    def _protect(self, descriptor: int, above: bytes, raw: bytes, kind: Kind) -> bool:
        """Protect an entry with a name of this kind. False if it is an ordinary directory."""
        path = join_path(above, raw)
        if self._is_exempt(path):
            return True
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(raw, dir_fd=descriptor, follow_symlinks=False)
            mode = status.st_mode
            if stat.S_ISLNK(mode):
                self._record_link(descriptor, above, raw, status)
            elif stat.S_ISDIR(mode) and kind == "git":
                with descend(descriptor, raw) as git:
                    if git is None:
                        self.protect_closed(path)
                    else:
                        self.protect_git(git, path)
            elif stat.S_ISDIR(mode) and kind == "file":
                return False
            elif stat.S_ISDIR(mode) or stat.S_ISREG(mode):
                self._record(path, status)
                if kind == "git":
                    self._protect_elsewhere(above, self._text(descriptor, above, raw))
                elif raw.lower() == b".gitmodules":
                    for value in git_directory.values(self._text(descriptor, above, raw), b"path"):
                        self._protect_checkout(self._inside(above, value))
        return True

    def _text(self, directory: int, above: bytes, name: bytes) -> bytes:
        """The text of a file, unless a command has made it, or too much was read before."""
        if self.text_left <= 0 or join_path(above, name) in self.made_by_commands:
            return b""
        text = git_directory.text(directory, name)
        self.text_left -= len(text)
        return text

    def _protect_modules(self, modules: int | None, path: bytes, depth: int) -> None:
        """Protect the git directories of submodules, whose names may be paths."""
        for name in git_directory.names(modules):
            with descend(modules, name) as child:
                self.directories_left -= 1
                if child is None or self.directories_left <= 0:
                    continue
                if git_directory.is_git(child):
                    self.protect_git(child, join_path(path, name))
                elif depth:
                    self._protect_modules(child, join_path(path, name), depth - 1)

    def _protect_named(self, directory: bytes, checkout: bytes, configuration: bytes, depth: int) -> None:
        """Protect the paths in the workspace that a configuration names: programs, hooks, further configuration, a
        working tree.
        """
        for word in git_directory.programs(configuration):
            self._protect_path(self._inside(checkout, word), stat.S_IFREG)
        for word in git_directory.values(configuration, b"hookspath"):
            self._protect_path(self._inside(checkout, word), stat.S_IFDIR)
            self._protect_targets(self._inside(checkout, word))
        for word in git_directory.values(configuration, b"worktree"):
            self._protect_checkout(self._inside(directory, word))
        for word in git_directory.values(configuration, b"path") if depth else []:
            place = self._inside(directory, word)
            if place and place not in self.read_only:
                self._protect_path(place, stat.S_IFREG)
                with descend(self.root, dirname(place)) as above:
                    if above is not None:
                        more = self._text(above, dirname(place), place.rpartition(b"/")[2])
                        self._protect_named(dirname(place), checkout, more, depth - 1)

    def _protect_checkout(self, path: bytes | None) -> None:
        if path is not None and path not in self.checkouts:
            self.checkouts.add(path)
            with descend(self.root, path) as directory:
                if directory is not None:
                    self._protect(directory, path, b".git", "git")

    def _protect_elsewhere(self, above: bytes, file: bytes) -> None:
        """Protect the git directory that a ``.git`` file leads to."""
        path = self._inside(above, file.removeprefix(b"gitdir:").strip())
        if path is not None and path not in self.repositories:
            with descend(self.root, path) as git:
                if git is not None:
                    self.protect_git(git, path)

    def _record_link(self, descriptor: int, above: bytes, name: bytes, status: os.stat_result) -> None:
        """A link can't be protected, but its target is, unless a command has made the link."""
        path = join_path(above, name)
        self.links.add(path)
        if self.is_made(path, mark_of(status)):
            self.made_by_commands[path] = mark_of(status)
        else:
            self._protect_target(descriptor, above, name)

    def _protect_targets(self, path: bytes | None) -> None:
        if path is not None:
            with descend(self.root, path) as directory:
                for name in git_directory.links(directory):
                    self._protect_target(directory, path, name)

    def _protect_target(self, descriptor: int | None, above: bytes, name: bytes) -> None:
        with contextlib.suppress(OSError):
            target = self._inside(join(above, dirname(name)), os.readlink(name, dir_fd=descriptor))
            self._protect_path(target, stat.S_IFREG, stat.S_IFDIR)

    def _protect_path(self, path: bytes | None, *kinds: int) -> None:
        if path and not self._is_exempt(path):
            self.protect_there(path, *kinds)

    def _is_exempt(self, path: bytes) -> bool:
        return not {os.fsdecode(path), os.fsdecode(path.rpartition(b"/")[2])}.isdisjoint(self.exempt)

    def _inside(self, above: bytes, word: bytes) -> bytes | None:
        """The path in the workspace that a text means, by the text alone; None if it is outside."""
        whole = normpath(join(self.where, above, expanduser(word)))
        return whole[len(self.where) + 1 :] if whole.startswith(self.where + b"/") and b"\0" not in whole else None

    def _record(self, path: bytes, status: os.stat_result) -> None:
        if len(path) >= _MOST_PATH_BYTES:  # neither git nor a shell can use such a path
            return
        self.read_only[path] = mark = mark_of(status)
        if self.is_made(path, mark):
            self.made_by_commands[path] = mark
        self._pin(path.rpartition(b"/")[0])

    def _pin(self, path: bytes) -> None:
        while path and path not in self.pinned and len(path) < _MOST_PATH_BYTES:
            self.pinned.add(path)
            path = path.rpartition(b"/")[0]
