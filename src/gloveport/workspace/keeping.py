"""What commands must not write although the workspace is theirs to write: found anew before each of them.

``policy.protected`` names it, the fork server mounts it read-only (``guest/zygote.py``, ``kept``). A mount can be moved
or removed as little as it can be written; so all directories above one, up to the workspace, are pinned by mounts too.
What is not there can't be kept. So a repository that lacks a directory of hooks or a configuration is given an empty
one, which means the same, and after a command it is told what has come into being meanwhile.

A git directory is one by what is in it: also where it has another name, or a ``.git`` that is a file leads to it. What
was known once is looked for again, however much a command puts in the way of the search.
"""

import os
from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from gloveport.errors import WorkspaceError
from gloveport.sandbox.base import Kept
from gloveport.workspace.looking import Mark, Search, descended
from gloveport.workspace.tree import Tree, shown

_MOST_KEPT: Final = 256


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is to be kept.

    Attributes:
        read_only: What is protected, by its path relative to the root; as bytes, for they may be no text. Whoever
            writes to it, or puts another in its place, changes what is told of it here.
        pinned: Paths of the directories above, and of the git directories themselves.
        links: Paths that should be protected, but are symbolic links, which can't be.
        repositories: Paths of git directories.
        removed: What was removed on the way, how often: git would have taken its configuration from elsewhere for it.
        partial: Whether the workspace is too large to look at all of it.
    """

    read_only: Mapping[bytes, Mark]
    pinned: AbstractSet[bytes]
    links: AbstractSet[bytes]
    repositories: AbstractSet[bytes]
    removed: Mapping[bytes, int] = field(compare=False)
    partial: bool = field(compare=False)

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
            *((path, (f"{target}/{os.fsdecode(path)}", "pinned")) for path in self.pinned - self.read_only.keys()),
            *((path, (f"{target}/{os.fsdecode(path)}", "read-only")) for path in self.read_only),
        ]
        return tuple(place for _, place in sorted(places))  # what lies above another comes first


NOTHING: Final = Found(
    read_only={},
    pinned=frozenset(),
    links=frozenset(),
    repositories=frozenset(),
    removed={},
    partial=False,
)
"""For a start."""


def find(tree: Tree, known: Found = NOTHING) -> Found:
    """Look through the workspace. A thread's work: it takes about a millisecond for a hundred directories.

    ``known``: what was found before. It is found again, if it is there.
    """
    with tree.directory(".") as root:
        search = Search(exempt=tree.exempt, root=root.descriptor, where=os.fsencode(tree.root))
        search.look(root.descriptor, b"", 0)
        for path in sorted(known.repositories - search.repositories):
            with descended(root.descriptor, path) as git:
                if git is not None:
                    search.protect_git(git, path)
        for path in sorted(known.read_only.keys() - search.read_only.keys()):
            search.keep_there(path)
    return Found(
        read_only=search.read_only,
        pinned=search.pinned,
        links=search.links,
        repositories=search.repositories,
        removed=Counter(known.removed) + Counter(search.removed),
        partial=search.left <= 0 or search.names_left <= 0,
    )


def differences(before: Found, after: Found) -> list[str]:
    """What has come to be otherwise meanwhile by which a program of the owner could run something: in words."""
    words = [
        f"removed {shown(path)}: git would have taken its configuration from elsewhere"
        for path, times in after.removed.items()
        if times > before.removed.get(path, 0)
    ]
    look = "whoever opens the workspace should look at it first"
    for path, mark in sorted(after.read_only.items()):
        if before.read_only.get(path) != mark:
            what = "was changed meanwhile" if path in before.read_only else "is new"
            words.append(f"{shown(path)} {what}: {look}")
        if mark[-1] > 1:
            words.append(f"{shown(path)} is a file with several names (hard links), by which commands can write to it")
    words += [f"{shown(path)} is a new symbolic link: {look}" for path in sorted(after.links - before.links)]
    for path in sorted(before.repositories - after.repositories):
        words.append(f"{shown(path)} is a repository no more: git takes one above it, or beside it, for it")
    if after.partial and not before.partial:
        words.append("the workspace has become too large to look at all of it: not all that is protected is found")
    return words
