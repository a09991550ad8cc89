"""Tells which files are left out: by names of build output, and by the workspace's own .gitignore files.

The files are read here. Git is never run: its configuration lies in the workspace, and names programs to run. So
``core.excludesFile`` and ``.git/info/exclude`` do not count. Rules are as hostile as the files: they are bounded in
number and size, and matched in bounded time (globs.py). Names are matched byte by byte, as git does.
"""

import math
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.globs import gitignore_regex
from gloveport.workspace.files.spelling import check_path, parent_of, raw
from gloveport.workspace.files.tree import Tree

Kind: TypeAlias = Literal["directory", "file", "symlink", "other"]

NAMES: Final = frozenset(
    {b".git", b".reference", b"node_modules", b"target", b"dist", b"build", b".venv", b"venv", b".tox"}
    | {b".mypy_cache", b".pytest_cache", b".ruff_cache", b"__pycache__"}
)
"""Names that are left out everywhere, as clients of these tools expect."""

MAX_BYTES: Final = 1 << 16
"""Bytes of one .gitignore that count; the rest is ignored."""

MAX_RULES: Final = 2000
"""Lines of one .gitignore that count; the rest is ignored."""

_MAX_PATTERN: Final = 1 << 10
"""The longest rule; longer ones are ignored. A match costs at most the length of a path times this."""

MOST_RULES: Final = 1 << 16
"""Bytes of all .gitignore files that count in one call of ``find_ignored``."""

_FEW_RULES: Final = 1 << 12
"""The same where others wait: hostile rules take a tenth of a second to compile."""

_DEEPEST: Final = 64
"""Levels of directories whose rules count in that call."""

_MOST_STEPS: Final = 1 << 27
"""Bytes of rules times bytes of compared paths in that call: a fraction of a second at worst."""

_SEARCH_RULES: Final = 1 << 18
_SEARCH_STEPS: Final = 1 << 33
"""The same for the files of one search: 10 KiB of rules for each of 10,000 files; twenty seconds at worst."""

_CACHED: Final = 16
"""How many files' compiled rules are cached: compiling takes a hundred times longer than reading."""

_SPECIAL: Final = re.compile(r"[*?\[\\]")


class _Patterns(Struct):
    names: set[str] = field(default_factory=set)
    by_name: list[re.Pattern[str]] = field(default_factory=list)
    by_path: list[re.Pattern[str]] = field(default_factory=list)

    def match(self, path: str, name: str) -> bool:
        return (
            name in self.names
            or any(pattern.fullmatch(name) for pattern in self.by_name)
            or any(pattern.fullmatch(path) for pattern in self.by_path)
        )


class _Rules(Struct):
    """Consecutive rules with the same effect, whose order does not matter."""

    leaves_out: bool
    anything: _Patterns = field(default_factory=_Patterns)
    directories: _Patterns = field(default_factory=_Patterns)

    def match(self, path: str, name: str, kind: Kind) -> bool:
        return self.anything.match(path, name) or (kind == "directory" and self.directories.match(path, name))


class Ignore(Struct, frozen=True):
    """The rules of one .gitignore.

    Attributes:
        above: How many bytes of a path lead to its directory.
        size: How many bytes of rules were read.
    """

    above: int
    size: int
    _rules: Sequence[_Rules]

    def verdict(self, path: str, name: str, kind: Kind) -> bool | None:
        """Whether it is ignored; None if no rule matches it."""
        below = path[self.above :]
        return next((rules.leaves_out for rules in self._rules if rules.match(below, name, kind)), None)


def read_ignore(tree: Tree, directory: str, most: int = MAX_BYTES) -> Ignore | None:
    """Read the rules of a directory, at most ``most`` bytes; None if there are none, or they can't be read."""
    try:
        with tree.open_file(f"{directory}/.gitignore") as opened:
            text = os.read(opened.descriptor, min(most, MAX_BYTES))
            whole = opened.status.st_size <= len(text)
    except WorkspaceError:
        return None
    above = 0 if directory == "." else len(raw(directory)) + 1
    # A truncated rule would have another meaning.
    return Ignore(above, len(text), _parse(text if whole else text[: text.rfind(b"\n") + 1]))


def is_ignored(ignores: Iterable[Ignore], path: bytes, kind: Kind) -> bool:
    """Whether a file or directory is left out, given that no directory above it is. ``ignores`` are of the directories
    above it, the nearest first; ``path`` is relative to the root.
    """
    name = path.rpartition(b"/")[2]
    if name in NAMES:
        return True
    where, what = path.decode("latin-1"), name.decode("latin-1")
    verdicts = (ignore.verdict(where, what, kind) for ignore in ignores)
    return next((verdict for verdict in verdicts if verdict is not None), False)


@lru_cache(_CACHED)  # keyed by the text: a file may change without a new time
def _parse(text: bytes) -> Sequence[_Rules]:
    """The rules, the last first: the last matching rule decides. Shared, so never modify them."""
    runs: list[_Rules] = []
    for line in text.removeprefix(b"\xef\xbb\xbf").decode("latin-1").split("\n")[:MAX_RULES]:
        rule = _strip_padding(line.removesuffix("\r"))
        if rule.startswith("#") or len(rule) > _MAX_PATTERN:
            continue
        leaves_out = not rule.startswith("!")
        rule = rule if leaves_out else rule[1:]
        if not rule.strip("/"):
            continue
        if not runs or runs[-1].leaves_out is not leaves_out:
            runs.append(_Rules(leaves_out))
        pattern = rule.removesuffix("/")
        _add(pattern, runs[-1].anything if pattern == rule else runs[-1].directories)
    return runs[::-1]


def _strip_padding(line: str) -> str:
    """The line without trailing blanks, except one after a backslash."""
    rule = line.rstrip(" ")
    return f"{rule} " if rule != line and rule.endswith("\\") else rule


def _add(pattern: str, patterns: _Patterns) -> None:
    if "/" in pattern:
        patterns.by_path.append(re.compile(gitignore_regex(pattern.removeprefix("/"))))
    elif _SPECIAL.search(pattern):
        patterns.by_name.append(re.compile(gitignore_regex(pattern)))
    else:
        patterns.names.add(pattern)


def find_ignored(tree: Tree, paths: Iterable[str]) -> frozenset[str]:
    """The paths among these that .gitignore rules leave out, themselves or with a directory above.

    It never waits for another file system than the root's: rules below a mount do not count, nor do rules beyond the
    bounds of one call. An attacker who can write such rules could also have removed them.
    """
    return _find_ignored(tree, paths, MOST_RULES)[0]


def find_ignored_at_once(tree: Tree, paths: Iterable[str]) -> frozenset[str]:
    """The same, in no time. Raises BlockingIOError if there are more than a few rules."""
    found, size = _find_ignored(tree, paths, _FEW_RULES)
    if size >= _FEW_RULES:
        raise BlockingIOError
    return found


def _find_ignored(tree: Tree, paths: Iterable[str], most_rules: int) -> tuple[frozenset[str], int]:
    """These paths, and how many bytes of rules were read."""
    index = IgnoreIndex(tree.within_one_mount(), most_rules=most_rules, deepest=_DEEPEST, most_steps=_MOST_STEPS)
    found = set()
    for path in paths:
        with suppress(WorkspaceError):  # such a path can't be written
            if index.leaves_out(check_path(path)):
                found.add(path)
    return frozenset(found), index.size


class _Directory(Struct, frozen=True):
    left_out: bool = False
    ignores: tuple[Ignore, ...] = ()
    """Its own rules, and those of the directories above it, the nearest first."""


class IgnoreIndex(Struct):
    """Tells whether single files are left out; caches the rules of directories.

    Attributes:
        start: The directories down to this one are never left out: the caller has named it.
        hidden: Whether hidden files are included; else they are left out too.
        most_rules: Bytes of all .gitignore files that count.
        deepest: Levels of directories whose rules count.
        most_steps: Bytes of rules times bytes of compared paths; beyond that nothing is left out.
        size: Bytes of rules that were read.
    """

    tree: Tree
    start: str = "."
    hidden: Literal["shown", "left out"] = "shown"
    most_rules: int = _SEARCH_RULES
    deepest: float = math.inf
    most_steps: int = _SEARCH_STEPS
    size: int = 0
    _steps: int = 0
    _directories: dict[str, _Directory] = field(default_factory=dict)

    def leaves_out(self, path: str) -> bool:
        """Whether a file, by its canonical path, is left out, itself or with a directory above."""
        directory = self._directories.get(parent_of(path))
        if directory is None:
            inside = 0 if self.start == "." else self.start.count("/") + 1
            directory = self._below(".", _Directory(), 0, is_named=True)
            for depth, end in enumerate((at for at, sign in enumerate(path) if sign == "/"), 1):
                directory = self._below(path[:end], directory, depth, is_named=depth <= inside)
        return directory.left_out or self._is_left_out(path, directory.ignores, "file")

    def _below(self, path: str, above: _Directory, depth: int, *, is_named: bool) -> _Directory:
        if path not in self._directories:
            left_out = above.left_out or (not is_named and self._is_left_out(path, above.ignores, "directory"))
            own = () if left_out else self._read(path, depth)
            self._directories[path] = _Directory(left_out, (*own, *above.ignores))
        return self._directories[path]

    def _read(self, directory: str, depth: int) -> tuple[Ignore, ...]:
        if depth >= self.deepest or self.size >= self.most_rules:
            return ()
        rules = read_ignore(self.tree, directory, min(MAX_BYTES, self.most_rules - self.size))
        self.size += rules.size if rules else 0
        return (rules,) if rules else ()

    def _is_left_out(self, path: str, ignores: tuple[Ignore, ...], kind: Kind) -> bool:
        name = raw(path)
        if self.hidden == "left out" and name.rpartition(b"/")[2].startswith(b"."):
            return True
        self._steps += sum(ignore.size * (len(name) - ignore.above) for ignore in ignores)
        return is_ignored(ignores if self._steps <= self.most_steps else (), name, kind)
