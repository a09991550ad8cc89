"""The protected paths of a workspace, which commands must not write: found anew before each command.

``protected_names`` (``policy``) has their names, and the fork server mounts them read-only (``guest/walls.py``). A
mount point can't be moved or removed; so all directories above it, up to the workspace, are pinned by mounts too. A
path that does not exist can't be protected. So a repository without a hooks directory or a configuration gets an empty
one, which means the same. Afterwards, protected paths that have appeared meanwhile are reported.

A git directory is recognized by its contents: even under another name, or if a ``.git`` file leads to it. Known paths
are looked for again, however many names a command puts in the way of the search.

Mounts have a cost, and a command can make a protected name ten thousand times. Paths that a command has made were never
the owner's: they are protected as far as there is room (``mount_plan``), and beyond that their changes are reported. So
no leftover of a command stops the next one, or takes the room of older paths.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from gloveport.sandbox.plan import PathProtection
from gloveport.untrusted_text import printable, shorten
from gloveport.workspace.files.spelling import spell_path
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.protected import mount_plan
from gloveport.workspace.protected.descent import Mark, descend
from gloveport.workspace.protected.protected_scan import Search

_MOST_MADE: Final = 8192
_MOST_WORDS: Final = 24


@dataclass(frozen=True, kw_only=True)
class ProtectedPaths:
    """The protected paths at one moment.

    Attributes:
        read_only: Marks of protected paths, by path relative to the root, as bytes, since paths may be no text. A write
            to such a file, or its replacement, changes its mark.
        closed: Directories that nobody can access, which are protected as a whole.
        pinned: Paths of the directories above them, and of the git directories themselves.
        links: Paths that should be protected, but are symbolic links, which can't be.
        made_by_commands: Those of all these that commands have made.
        repositories: Paths of git directories.
        configs: Text of a repository's configuration, if commands get a copy of it.
        rebases: Files with commands that git runs when a rebase goes on, and these. git writes them anew all the time,
            so they can't be protected.
        removed: Entries that were removed, with their counts: they would have redirected git's configuration.
        partial: Whether the workspace is too large to search it completely.
    """

    read_only: Mapping[bytes, Mark]
    closed: Mapping[bytes, Mark]
    pinned: AbstractSet[bytes]
    links: AbstractSet[bytes]
    made_by_commands: Mapping[bytes, Mark]
    repositories: AbstractSet[bytes]
    removed: Mapping[bytes, int] = field(compare=False)
    configs: Mapping[bytes, bytes] = field(default_factory=dict, compare=False)  # its mark is compared instead
    rebases: Mapping[bytes, bytes] = field(default_factory=dict, compare=False)
    partial: bool = field(compare=False)

    @cached_property
    def mounts(self) -> mount_plan.Mounts:
        """The mounts that protect these paths."""
        read_only = self.read_only.keys() | self.closed.keys()
        made_by_commands = read_only & self.made_by_commands.keys()
        return mount_plan.plan_mounts(
            read_only - made_by_commands, made_by_commands, self.pinned, mount_plan.MOST_MOUNTS
        )

    def kept_paths(self, target: str) -> tuple[PathProtection, ...]:
        """The paths for the fork server, with the workspace mounted at ``target``."""
        mounts = self.mounts
        places: list[tuple[bytes, PathProtection]] = [
            *((path, (_below(target, path), "pinned")) for path in mounts.pinned),
            *((path, (_below(target, path), "read-only")) for path in mounts.read_only if path not in self.configs),
            *((path, (_below(target, path), "copied", text)) for path, text in self._copies(mounts)),
        ]
        return tuple(place for _, place in sorted(places))  # parents first

    def _copies(self, mounts: mount_plan.Mounts) -> Iterator[tuple[bytes, str]]:
        return ((path, text.decode("latin-1")) for path, text in self.configs.items() if path in mounts.read_only)

    def with_marks(self, older: Mapping[Mark, Mark]) -> "ProtectedPaths":
        """The same, with marks that are keys of ``older`` replaced by the older marks."""

        def renew(marks: Mapping[bytes, Mark]) -> dict[bytes, Mark]:
            return {path: older.get(mark, mark) for path, mark in marks.items()}

        return replace(self, read_only=renew(self.read_only), made_by_commands=renew(self.made_by_commands))

    def without_made(self) -> "ProtectedPaths":
        """The same without paths that commands have made: a running command may move these all the time."""
        read_only = {path: mark for path, mark in self.read_only.items() if path not in self.made_by_commands}
        pinned = mount_plan.with_ancestors(read_only.keys() | self.closed.keys()) - read_only.keys()
        return replace(self, read_only=read_only, pinned=pinned, made_by_commands={})

    def warnings(self) -> list[str]:
        """Warnings, in words, about paths that can't be protected, or only together with others."""
        words = [f"{_quote_path(path)} is a link, and can't be kept from commands" for path in sorted(self.links)]
        words += [
            f"{_quote_path(path)} is kept from commands as a whole: it holds more that is protected "
            "than can be kept singly"
            for path in sorted(self.mounts.whole)
        ]
        words += [
            f"{_quote_path(path)} is kept from commands as a whole: nobody can look into it" for path in self.closed
        ]
        words = _first(words)
        if self.mounts.loose:
            words.append(
                f"{len(self.mounts.loose)} protected files that commands have made are not kept from commands, "
                f"which are too many: delete what nobody needs, as {_quote_path(min(self.mounts.loose))}"
            )
        if self.partial:
            words.append("the workspace is too large to look for all that should be kept from commands")
        return words


NOTHING: Final = ProtectedPaths(
    read_only={},
    closed={},
    pinned=frozenset(),
    links=frozenset(),
    made_by_commands={},
    repositories=frozenset(),
    removed={},
    partial=False,
)
"""No protected paths: the initial value."""


def find_protected(tree: Tree, previous: ProtectedPaths, commands: int = 0) -> ProtectedPaths:
    """Search the workspace. Call it in a thread: it takes about a millisecond for a hundred directories. ``previous``
    paths are found again if they still exist; so many ``commands`` may have written to the workspace since.
    """

    def is_made(path: bytes, mark: Mark) -> bool:
        """Whether commands have made this, and nobody else has changed it since."""
        if path in previous.made_by_commands:
            # The device's number may have changed.
            return commands > 0 or previous.made_by_commands[path][1:] == mark[1:]
        return commands > 0 and not (path in previous.read_only or path in previous.links or path in previous.closed)

    tree.give_access()
    with tree.open_directory(".") as root:
        search = Search(exempt=tree.exempt, root=root.descriptor, where=os.fsencode(tree.root), is_made=is_made)
        for path in sorted(previous.pinned):
            search.give_access(path)
        search.look()
        for path in sorted(previous.repositories - search.repositories):
            with descend(root.descriptor, path) as git:
                if git is not None:
                    search.protect_git(git, path)
        for path in sorted(previous.read_only.keys() - search.read_only.keys()):
            search.protect_there(path)
        for path in sorted(previous.closed.keys() - search.closed.keys()):
            search.protect_closed(path)
    too_many = sorted(search.made_by_commands.keys() & search.read_only.keys(), key=mount_plan.rank)[_MOST_MADE:]
    for path in too_many:
        del search.read_only[path], search.made_by_commands[path]
    return ProtectedPaths(
        read_only=search.read_only,
        closed=search.closed,
        pinned=search.pinned,
        links=search.links,
        made_by_commands=search.made_by_commands,
        repositories=search.repositories,
        removed=Counter(previous.removed) + Counter(search.removed),
        configs=search.configs,
        rebases=search.rebases,
        partial=search.partial or bool(too_many),
    )


def differences(before: ProtectedPaths, after: ProtectedPaths) -> list[str]:
    """Changes meanwhile by which a program of the owner could run something, in words."""
    look = "whoever opens the workspace should look at it first"
    changed, new, named_twice = [], [], []
    for path, mark in sorted(after.read_only.items(), key=lambda item: mount_plan.rank(item[0])):
        if path not in before.read_only:
            new.append(f"{_quote_path(path)} is new: {look}")
        elif before.read_only[path] != mark:
            changed.append(f"{_quote_path(path)} was changed meanwhile: {look}")
        if mark[-1] > 1:
            named_twice.append(
                f"{_quote_path(path)} is a file with several names (hard links), by which commands can write to it"
            )
    words = [
        *_first(
            [
                f"removed {_quote_path(path)}: git would have taken its configuration from elsewhere"
                for path, times in after.removed.items()
                if times > before.removed.get(path, 0)
            ]
        ),
        *_first(changed),
        *_first(new),
        *_first(named_twice),
        *_first([f"{_quote_path(path)} is a new symbolic link: {look}" for path in sorted(after.links - before.links)]),
        *_first(
            [
                f"{_quote_path(path)} has commands that git runs when that rebase goes on: {look}"
                for path, commands in sorted(after.rebases.items())
                if before.rebases.get(path) != commands
            ]
        ),
        *_first(
            [
                f"{_quote_path(path)} is a repository no more: git takes one above it, or beside it, for it"
                for path in sorted(before.repositories - after.repositories)
            ]
        ),
    ]
    if after.mounts.loose - before.mounts.loose:
        words.append("commands have made more protected files than can be kept: the next one can write to some of them")
    if after.partial and not before.partial:
        words.append("the workspace has become too large to look at all of it: not all that is protected is found")
    return words


def _first(words: list[str]) -> list[str]:
    """The first ones, and the number of further ones."""
    more = len(words) - _MOST_WORDS
    return words if more <= 0 else [*words[:_MOST_WORDS], f"and {more} more like these"]


def _quote_path(path: bytes) -> str:
    """A path, shortened for a message, without invisible characters."""
    return shorten(printable(spell_path(path)) or "the workspace")


def _below(target: str, path: bytes) -> str:
    return f"{target}/{os.fsdecode(path)}" if path else target
