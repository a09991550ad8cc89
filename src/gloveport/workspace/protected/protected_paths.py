"""The protected paths of a workspace, which commands must not write: found anew before each command.

``protected_names`` (``policy``) has their names, and the fork server mounts them read-only (``guest/walls.py``). A
mount can be moved or removed as little as it can be written; so all directories above one, up to the workspace, are
pinned by mounts too. What is not there can't be kept. So a repository that lacks a directory of hooks or a
configuration is given an empty one, which means the same. Afterwards it is told what has come into being meanwhile.

A git directory is one by what is in it: also where it has another name, or a ``.git`` that is a file leads to it. What
was known once is looked for again, however much a command puts in the way of the search.

Mounts are not for nothing, and a command can make a protected name ten thousand times. What a command has made was
never the owner's: it is kept as far as there is room (``mount_plan``), and beyond that its changes are told. So nothing
that it leaves behind stops the next one, or takes the room of what was there before.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from gloveport.sandbox.plan import Kept
from gloveport.untrusted_text import printable
from gloveport.workspace.files.spelling import shorten, spell_path
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.protected import mount_plan
from gloveport.workspace.protected.descent import Mark, descend
from gloveport.workspace.protected.protected_scan import Search

_MOST_MADE: Final = 8192
_MOST_WORDS: Final = 24


@dataclass(frozen=True, kw_only=True)
class ProtectedPaths:
    """What is to be kept.

    Attributes:
        read_only: What is protected, by its path relative to the root; as bytes, for they may be no text. Whoever
            writes to it, or puts another in its place, changes what is told of it here.
        closed: Directories that nobody can look into, so that all of them is kept.
        pinned: Paths of the directories above, and of the git directories themselves.
        links: Paths that should be protected, but are symbolic links, which can't be.
        made: Of all these what commands have made.
        repositories: Paths of git directories.
        configs: What the configuration of a repository says, where commands are shown a copy of it.
        removed: What was removed on the way, how often: git would have taken its configuration from elsewhere for it.
        partial: Whether the workspace is too large to look at all of it.
    """

    read_only: Mapping[bytes, Mark]
    closed: Mapping[bytes, Mark]
    pinned: AbstractSet[bytes]
    links: AbstractSet[bytes]
    made: Mapping[bytes, Mark]
    repositories: AbstractSet[bytes]
    removed: Mapping[bytes, int] = field(compare=False)
    configs: Mapping[bytes, bytes] = field(default_factory=dict, compare=False)  # as its mark says, which is compared
    partial: bool = field(compare=False)

    @cached_property
    def mounts(self) -> mount_plan.Mounts:
        """What is mounted of it."""
        read_only = self.read_only.keys() | self.closed.keys()
        made = read_only & self.made.keys()
        return mount_plan.plan_mounts(read_only - made, made, self.pinned, mount_plan.MOST_MOUNTS)

    def kept_paths(self, target: str) -> tuple[Kept, ...]:
        """For the fork server, with the workspace mounted at ``target``."""
        mounts = self.mounts
        places: list[tuple[bytes, Kept]] = [
            *((path, (_below(target, path), "pinned")) for path in mounts.pinned),
            *((path, (_below(target, path), "read-only")) for path in mounts.read_only if path not in self.configs),
            *((path, (_below(target, path), "copied", text)) for path, text in self._copies(mounts)),
        ]
        return tuple(place for _, place in sorted(places))  # what lies above another comes first

    def _copies(self, mounts: mount_plan.Mounts) -> Iterator[tuple[bytes, str]]:
        return ((path, text.decode("latin-1")) for path, text in self.configs.items() if path in mounts.read_only)

    def with_marks(self, older: Mapping[Mark, Mark]) -> "ProtectedPaths":
        """The same, where of each mark that is in ``older`` the one is taken that it stands for there."""

        def renew(marks: Mapping[bytes, Mark]) -> dict[bytes, Mark]:
            return {path: older.get(mark, mark) for path, mark in marks.items()}

        return replace(self, read_only=renew(self.read_only), made=renew(self.made))

    def without_made(self) -> "ProtectedPaths":
        """The same without what commands have made: one that still runs may move it about all the time."""
        read_only = {path: mark for path, mark in self.read_only.items() if path not in self.made}
        pinned = mount_plan.with_ancestors(read_only.keys() | self.closed.keys()) - read_only.keys()
        return replace(self, read_only=read_only, pinned=pinned, made={})

    def warnings(self) -> list[str]:
        """What of it can't be kept, or only with more than itself: in words."""
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
    made={},
    repositories=frozenset(),
    removed={},
    partial=False,
)
"""For a start."""


def find_protected(tree: Tree, known: ProtectedPaths, commands: int = 0) -> ProtectedPaths:
    """Look through the workspace. A thread's work: it takes about a millisecond for a hundred directories.

    Args:
        tree: The workspace.
        known: What was found before. It is found again, if it is there.
        commands: How many may have written to it since then.
    """

    def is_made(path: bytes, mark: Mark) -> bool:
        """Whether commands have made this, and nobody else has changed it since."""
        if path in known.made:
            return commands > 0 or known.made[path][1:] == mark[1:]  # the device may have another number by now
        return commands > 0 and not (path in known.read_only or path in known.links or path in known.closed)

    tree.give_access()
    with tree.open_directory(".") as root:
        search = Search(exempt=tree.exempt, root=root.descriptor, where=os.fsencode(tree.root), is_made=is_made)
        for path in sorted(known.pinned):
            search.give_access(path)
        search.look()
        for path in sorted(known.repositories - search.repositories):
            with descend(root.descriptor, path) as git:
                if git is not None:
                    search.protect_git(git, path)
        for path in sorted(known.read_only.keys() - search.read_only.keys()):
            search.protect_there(path)
        for path in sorted(known.closed.keys() - search.closed.keys()):
            search.protect_closed(path)
    too_many = sorted(search.made.keys() & search.read_only.keys(), key=mount_plan.rank)[_MOST_MADE:]
    for path in too_many:
        del search.read_only[path], search.made[path]
    return ProtectedPaths(
        read_only=search.read_only,
        closed=search.closed,
        pinned=search.pinned,
        links=search.links,
        made=search.made,
        repositories=search.repositories,
        removed=Counter(known.removed) + Counter(search.removed),
        configs=search.configs,
        partial=search.partial or bool(too_many),
    )


def differences(before: ProtectedPaths, after: ProtectedPaths) -> list[str]:
    """What has come to be otherwise meanwhile by which a program of the owner could run something: in words."""
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
    """As many as anybody reads, and how many more there are."""
    more = len(words) - _MOST_WORDS
    return words if more <= 0 else [*words[:_MOST_WORDS], f"and {more} more like these"]


def _quote_path(path: bytes) -> str:
    """A path, as far as a message shows it, and nothing of it unseen."""
    return shorten(printable(spell_path(path)) or "the workspace")


def _below(target: str, path: bytes) -> str:
    return f"{target}/{os.fsdecode(path)}" if path else target
