"""Where a command runs, and whether what a word names there can be lost: tools make it anew, or it is elsewhere."""

import re
from collections.abc import Sequence
from functools import lru_cache
from posixpath import join, normpath

from msgspec import Struct
from msgspec.structs import replace

from gloveport.policy.shell_text.words import Word
from gloveport.policy.wildcards import matches

_HOME = re.compile(r"(?:~[\w-]*|\$HOME|\$\{HOME\}|\$XDG_\w+|\$\{XDG_\w+\})(?:/(.*))?", re.DOTALL)
_PATTERN = re.compile(r"[*?\[{(`$]")
"""Where what a path names begins to depend on more than its text."""


class Directory(Struct, frozen=True):
    """Where a command runs.

    Attributes:
        root: Absolute path of the workspace, as the command sees it.
        path: Where it is now: relative to the root, or absolute; None where the text does not tell.
        disposable: Patterns of names that may be deleted.
    """

    root: str
    path: str | None
    disposable: frozenset[str]

    def is_disposable(self, path: str) -> bool:
        """Tell whether a part of a path is a name of what is made anew."""
        return any(_has_match(self.disposable, part) for part in path.split("/") if part not in {"", "."})

    def resolve(self, word: Word) -> str | None:
        """The absolute path that a word names, ``..`` resolved as text; None where it is not known."""
        if word.text.startswith("/"):
            return _absolute(word.text)
        if self.path is None or not word.known or word.text.startswith("~"):
            return None
        return _absolute(join(self.root, self.path, word.text))

    def resolve_literal(self, word: Word) -> str | None:
        """The same of a word that names one path, and no pattern."""
        return self.resolve(word) if word.known and not _PATTERN.search(word.text) else None

    def is_outside(self, path: str) -> bool:
        """Tell whether neither an absolute path nor anything in it can be of the workspace."""
        root, literal = _absolute(self.root), _PATTERN.split(path, maxsplit=1)[0]
        if literal == path:
            return not f"{path.rstrip('/')}/".startswith(f"{root}/") and not root.startswith(f"{path.rstrip('/')}/")
        return not literal.startswith(f"{root}/") and not f"{root}/".startswith(literal)

    def is_spared(self, word: Word) -> bool:
        """Tell whether nothing is lost with what a word names: tools make it anew, or it is the sandbox's own."""
        if is_home(word):
            return True
        path, root = self.resolve(word), _absolute(self.root)
        if path is None:
            return ".." not in word.text.split("/") and word.text[:1] != "~" and self.is_disposable(word.text)
        return self.is_disposable(path[len(root) :]) if path.startswith(f"{root}/") else self.is_outside(path)

    def change(self, target: Word) -> "Directory":
        """Where a command is after ``cd``; not known after ``cd -``."""
        if is_home(target):
            return replace(self, path="/home")
        path = self.resolve(target)
        known = path is not None and (target.known or self.is_outside(path)) and target.text != "-"
        return replace(self, path=path if known else None)


def is_home(word: Word) -> bool:
    """Tell whether a word names something in the home of commands, which is the server's, not the owner's."""
    found = _HOME.fullmatch(word.text)
    return found is not None and not normpath(found[1] or ".").startswith("..")


def list_words(words: Sequence[Word]) -> str:
    """The first of some words, and how many more there are."""
    more = f" and {len(words) - 1} more" if len(words) > 1 else ""
    return f"{'' if words[0].known else 'what is meant by '}{words[0].text[:80]!a}{more}"


@lru_cache(maxsize=1024)  # a text may name one many times, and each time costs all patterns
def _has_match(patterns: frozenset[str], name: str) -> bool:
    return any(matches(pattern, name) for pattern in patterns)


def _absolute(path: str) -> str:
    return "/" + normpath(path).lstrip("/")  # two slashes mean one, and normpath keeps them
