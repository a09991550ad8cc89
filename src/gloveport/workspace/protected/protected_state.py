"""Saves the protected paths of a workspace for the next server: paths that it might not find, and who made them.

A command may put so many names in the way of the search that a new search does not find all paths. And paths that
commands have made must not be taken for the owner's. Without a saved state, all found paths count as the owner's.
"""

from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from typing import Final

from gloveport.atomic_file import replace_file
from gloveport.errors import ConfigError
from gloveport.model import Value
from gloveport.model.reading import read_json
from gloveport.untrusted_text import printable
from gloveport.user_directories import read_private
from gloveport.workspace.files.spelling import raw, spell_path
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.protected import mount_plan
from gloveport.workspace.protected.descent import Mark
from gloveport.workspace.protected.protected_paths import NOTHING, ProtectedPaths, find_protected

_NAME: Final = "protected.json"
_MOST_BYTES: Final = 64 << 20


class _State(Value):
    """Paths as ``spell_path`` spells them; those that commands have made with their marks."""

    read_only: tuple[str, ...]
    repositories: tuple[str, ...]
    made: dict[str, Mark]


def load(state: Path) -> ProtectedPaths:
    """The saved state in a directory of ours, as far as a search needs it."""
    try:
        saved = read_json(_State, read_private(state / _NAME, _MOST_BYTES))
    except (OSError, ValueError):
        return NOTHING
    read_only = dict.fromkeys(map(raw, saved.read_only), (0, 0, 0, 0, 0))
    repositories = {*map(raw, saved.repositories)}
    return replace(
        NOTHING,
        read_only=read_only,
        pinned=mount_plan.with_ancestors(read_only.keys() | repositories) - read_only.keys(),
        made_by_commands={raw(path): mark for path, mark in saved.made.items()},
        repositories=repositories,
    )


def find_first(tree: Tree, state: Path) -> ProtectedPaths:
    """The protected paths for a starting server; saved if they differ from the saved ones. Call it in a thread.

    Raises:
        ConfigError: It can't be written.
    """
    previous = load(state)
    found = find_protected(tree, previous)
    if not is_same(previous, found):
        save(state, found)
    return found


def save(state: Path, found: ProtectedPaths) -> None:
    """Save the protected paths in place of the former ones. Raises ConfigError if it can't be written."""
    saved = _State(
        read_only=_spell_paths(found.read_only.keys()),
        repositories=_spell_paths(found.repositories),
        made={spell_path(path): mark for path, mark in found.made_by_commands.items()},
    )
    place = state / _NAME
    try:
        replace_file(place, saved.model_dump_json().encode())
    except OSError as error:
        raise ConfigError(
            f"what is protected can't be saved in {printable(str(place))}: {error.strerror}",
            hint="make room there, and let this user write there",
        ) from error


def is_same(one: ProtectedPaths, other: ProtectedPaths) -> bool:
    """Whether both would be saved alike."""
    paths = one.read_only.keys() == other.read_only.keys()
    return paths and (one.repositories, one.made_by_commands) == (other.repositories, other.made_by_commands)


def _spell_paths(paths: AbstractSet[bytes]) -> tuple[str, ...]:
    return tuple(sorted(map(spell_path, paths)))
