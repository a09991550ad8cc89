"""Where a command runs, and whether what a word names there can be lost: tools make it anew, or it is elsewhere."""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from posixpath import join, normpath
from typing import Final

from gloveport.policy.commands import Word
from gloveport.policy.wildcards import matches

MADE_ANEW: Final = frozenset(
    {"node_modules", "bower_components", "__pycache__", ".venv", "venv", ".tox", ".nox", ".eggs", "*.egg-info"}
    | {".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".coverage", "coverage", "htmlcov", ".nyc_output"}
    | {"build", "dist", "out", "target", "obj", "_build", "site", ".next", ".nuxt", ".svelte-kit", ".output"}
    | {".turbo", ".parcel-cache", ".cache", ".gradle", "tmp", "temp", ".tmp", "DerivedData", "cmake-build-*"}
    | {"*.pyc", "*.pyo", "*.o", "*.class", "*.log", "*.tmp", "*.swp", "*.bak", "*.orig", "*~", "*.tsbuildinfo"}
)
"""Names of what tools make, and make again when it is gone."""

_HOME = re.compile(r"(?:~[\w-]*|\$HOME|\$\{HOME\}|\$XDG_\w+|\$\{XDG_\w+\})(?:/(.*))?", re.DOTALL)
_PATTERN = re.compile(r"[*?\[{(`$]")
"""Where what a path names begins to depend on more than its text."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command runs.

    Attributes:
        root: Absolute path of the workspace, as the command sees it.
        directory: Where it is now: relative to the root, or absolute; None where the text does not tell.
        disposable: Patterns of names that may be deleted.
        before: Where it was before.
    """

    root: str
    directory: str | None
    disposable: AbstractSet[str] = MADE_ANEW
    before: str | None = None
    _known: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)
    """Of names, whether they are disposable: a text may name one many times, and each time costs all patterns."""

    def is_disposable(self, path: str) -> bool:
        """Tell whether a part of a path is a name of what is made anew."""
        return any(self._is_made_anew(part) for part in path.split("/") if part not in {"", "."})

    def path_of(self, word: Word) -> str | None:
        """The absolute path that a word names, ``..`` resolved as text; None where it is not known."""
        if word.text.startswith("/"):
            return _absolute(word.text)
        if self.directory is None or not word.known or word.text.startswith("~"):
            return None
        return _absolute(join(self.root, self.directory, word.text))

    def is_outside(self, path: str) -> bool:
        """Tell whether neither an absolute path nor anything in it can be of the workspace."""
        root, literal = _absolute(self.root), _PATTERN.split(path, maxsplit=1)[0]
        if literal == path:
            return not f"{path.rstrip('/')}/".startswith(f"{root}/") and not root.startswith(f"{path.rstrip('/')}/")
        return not literal.startswith(f"{root}/") and not f"{root}/".startswith(literal)

    def _is_made_anew(self, name: str) -> bool:
        if name not in self._known:
            self._known[name] = name in self.disposable or any(
                "*" in pattern and matches(pattern, name) for pattern in self.disposable
            )
        return self._known[name]


def is_spared(word: Word, place: Place) -> bool:
    """Tell whether nothing is lost with what a word names: tools make it anew, or it is the sandbox's own."""
    if is_home(word):
        return True
    path = place.path_of(word)
    if path is None:
        return ".." not in word.text.split("/") and not word.text.startswith("~") and place.is_disposable(word.text)
    root = _absolute(place.root)
    if path.startswith(f"{root}/"):
        return place.is_disposable(path[len(root) :])
    return place.is_outside(path)


def is_home(word: Word) -> bool:
    """Tell whether a word names something in the home of commands, which is the server's, not the owner's."""
    found = _HOME.fullmatch(word.text)
    return found is not None and not normpath(found[1] or ".").startswith("..")


def moved(place: Place, target: Word | None) -> Place:
    """Where a command is after ``cd``."""
    if target is not None and target.text == "-":
        return replace(place, directory=place.before, before=place.directory)
    if target is None or is_home(target):
        return replace(place, directory="/home", before=place.directory)
    path = place.path_of(target)
    known = path is not None and (target.known or place.is_outside(path))
    return replace(place, directory=path if known else None, before=place.directory)


def _absolute(path: str) -> str:
    return "/" + normpath(path).lstrip("/")  # two slashes mean one, and normpath keeps them


def named(words: Sequence[Word]) -> str:
    """The first of some words, and how many more there are."""
    more = f" and {len(words) - 1} more" if len(words) > 1 else ""
    first = words[0]
    return f"{'' if first.known else 'what is meant by '}{first.text[:80]!a}{more}"
