"""Resolves paths in a command's directory, and tells which can be lost: not files that tools remake, or elsewhere."""

import re
from functools import lru_cache
from posixpath import join, normpath

from msgspec import Struct
from msgspec.structs import replace

from gloveport.policy.shell_text.words import Word
from gloveport.policy.wildcards import has_match

_OWN = re.compile(
    r"(?:~(?:\w[\w-]*)?|\$\{?(?:HOME|XDG_\w+|TMPDIR)(?::?-[\w/]*)?\}?|(?:\$\(|`)\s*mktemp\b[^;&|()`]*[)`])(?:/(.*))?",
    re.DOTALL,
)
"""The home and temporary directories of commands: the sandbox's own, not the owner's."""
PATTERN = re.compile(r"[*?\[{(`$…]")
"""Where a path begins to depend on more than its text."""
_is_disposable = lru_cache(maxsize=1024)(has_match)  # a text may repeat a name, and each check tries all patterns


class Directory(Struct, frozen=True):
    """Where a command runs.

    Attributes:
        root: Absolute path of the workspace, as the command sees it.
        path: The present directory: relative to the root, or absolute; None where the text does not tell.
        disposable: Patterns of names that may be deleted.
    """

    root: str
    path: str | None
    disposable: frozenset[str]

    def is_disposable(self, path: str) -> bool:
        """Tell whether a part of a path is the name of something that tools remake."""
        return any(_is_disposable(self.disposable, part) for part in path.split("/") if part not in {"", "."})

    def resolve(self, word: Word) -> str | None:
        """The absolute path that a word names, ``..`` resolved as text; None where it is unknown."""
        if word.text.startswith("/") or (self.path is not None and word.known and not word.text.startswith("~")):
            return _absolute(join(self.root, self.path or "", word.text))
        return None

    def is_elsewhere(self, word: Word) -> bool:
        """Tell whether the path that a word names, and all below it, is outside the workspace."""
        path, root = self.resolve(word), _absolute(self.root)
        if path is None or is_own(word):
            return is_own(word)
        literal = PATTERN.split(f"{path.rstrip('/')}/", maxsplit=1)[0]
        return not literal.startswith(f"{root}/") and not f"{root}/".startswith(literal)

    def is_spared(self, word: Word) -> bool:
        """Tell whether nothing is lost with the path that a word names: tools remake it, or it is elsewhere."""
        path, root = self.resolve(word), _absolute(self.root)
        if path is None:
            named = ".." not in word.text.split("/") and not word.text.startswith("~")
            return is_own(word) or (named and self.is_disposable(word.text))
        return self.is_elsewhere(word) or (path.startswith(f"{root}/") and self.is_disposable(path[len(root) :]))

    @property
    def always_exists(self) -> bool:
        """Whether ``cd`` to it can't fail: the workspace and what is above it, and what each sandbox has."""
        here = self.resolve(Word("."))
        return here in {"/tmp", "/home"} or (here is not None and f"{self.root}/".startswith(f"{here.rstrip('/')}/"))  # noqa: S108

    def change(self, target: Word) -> "Directory":
        """The directory after ``cd``; unknown after ``cd -``."""
        is_known = target.text != "-" and (target.known or self.is_elsewhere(target))
        return replace(self, path=("/home" if is_own(target) else self.resolve(target)) if is_known else None)


def is_own(word: Word) -> bool:
    """Tell whether a word names a path of the sandbox itself."""
    found = _OWN.fullmatch(word.text)
    return found is not None and not normpath(found[1] or ".").startswith("..")


def _absolute(path: str) -> str:
    return "/" + normpath(path).lstrip("/")  # two leading slashes mean one, but normpath keeps them
