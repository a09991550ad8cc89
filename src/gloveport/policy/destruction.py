"""Which commands destroy what an owner can't get back: work in the tree, or in git, that nothing makes anew. Pure.

Only what is plain to see counts. A script file may do all of it, and is not read.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from posixpath import normpath
from typing import Final

from gloveport.policy.programs import Run, Script, operands, options
from gloveport.policy.shell import Word
from gloveport.policy.wildcards import matches

MADE_ANEW: Final = frozenset(
    {"node_modules", "bower_components", "__pycache__", ".venv", "venv", ".tox", ".nox", ".eggs", "*.egg-info"}
    | {".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".coverage", "coverage", "htmlcov", ".nyc_output"}
    | {"build", "dist", "out", "target", "obj", "_build", "site", ".next", ".nuxt", ".svelte-kit", ".output"}
    | {".turbo", ".parcel-cache", ".cache", ".gradle", "tmp", "temp", ".tmp", "DerivedData", "cmake-build-*"}
    | {"*.pyc", "*.pyo", "*.o", "*.class", "*.log", "*.tmp", "*.swp", "*.bak", "*.orig", "*~", "*.tsbuildinfo"}
)
"""Names of what tools make, and make again when it is gone."""

_HOMES = ("~", "$HOME", "${HOME}", "$XDG_", "${XDG_")
_ROOT = re.compile(r"/[*.]*|")
_CALLS = re.compile(
    r"\b(?:rmtree|removedirs|os\.(?:remove|unlink|rmdir)|unlink|remove_tree|rm_rf?|File\.delete|fs\.rm|rmSync|unlinkSync"
    r"|rmdirSync)\b\s*\(?\s*(?:glob\b\s*\(?\s*)?['\"<]([^'\">\n]{1,256})['\">]"
    r"|\bPath\(['\"]([^'\"\n]{1,256})['\"]\)\.(?:unlink|rmdir)\b"
)
"""Calls of Python, Perl, Ruby and JavaScript that delete what is written in them."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command runs.

    Attributes:
        root: Absolute path of the workspace, as the command sees it.
        directory: Where it is now: relative to the root, or absolute; None where the text does not tell.
        disposable: Patterns of names that may be deleted.
    """

    root: str
    directory: str | None
    disposable: AbstractSet[str] = MADE_ANEW


def is_spared(word: Word, place: Place) -> bool:
    """Tell whether nothing is lost with what a word names: tools make it anew, or it is the sandbox's own."""
    text = word.text
    parts = [part for part in text.split("/") if part not in {"", "."}]
    if ".." not in parts and (text.startswith(_HOMES) or any(_is_disposable(part, place) for part in parts)):
        return True  # the home of commands is the server's, not the owner's
    if text.startswith("/"):
        here = text
    elif place.directory is None or not word.known:
        return False
    else:
        here = (
            f"{place.directory}/{text}" if place.directory.startswith("/") else f"{place.root}/{place.directory}/{text}"
        )
    return _is_elsewhere(normpath(here), place)


def _is_disposable(name: str, place: Place) -> bool:
    return name in place.disposable or any(matches(pattern, name) for pattern in place.disposable)


def _is_elsewhere(path: str, place: Place) -> bool:
    """An absolute path that is outside of the workspace, or in a directory of it that is made anew."""
    root, path = normpath(place.root), re.sub("^//", "/", path)  # two slashes mean one, and normpath keeps them
    if path.startswith(f"{root}/"):
        return any(_is_disposable(part, place) for part in path[len(root) :].split("/"))
    return path != root and not _ROOT.fullmatch(path) and not root.startswith(f"{path.rstrip('/*')}/")


def destroys(run: Run, place: Place) -> str:
    """What a program destroys, as the end of a sentence about it; empty where it destroys nothing."""
    if run.program.startswith("mkfs"):
        return "makes a new file system over what is there"
    judge = _JUDGES.get(run.program)
    return judge(run, place) if judge else ""


def script_destroys(script: Script, place: Place) -> str:
    """The same of a program text. Only calls whose argument is written in it count."""
    for found in _CALLS.finditer(script.source) if script.interpreter != "sh" else ():
        named = Word(found[1] or found[2])
        if not is_spared(named, place):
            return f"deletes {_named([named])}"
    return ""


def _rm(run: Run, place: Place) -> str:
    given = options(run.arguments)
    lost = _lost(operands(run.arguments), place, run)
    if given & {"-r", "-R", *_shortened("--recursive", 3)}:
        return f"deletes {_named(lost)} with all that is in it" if lost else ""
    every = [word for word in lost if word.text.rpartition("/")[2] in {"*", ".*"} or run.origin]
    return f"deletes {_named(every)}" if every else ""


def _unlink(run: Run, place: Place) -> str:
    lost = _lost(operands(run.arguments), place, run)
    return f"deletes {_named(lost)}" if lost else ""


def _truncate(run: Run, place: Place) -> str:
    size = options(run.arguments)
    lost = [
        word for word in _lost(operands(run.arguments), place, run) if not re.fullmatch(r"[+<>/%]?\d+\w*", word.text)
    ]
    return f"cuts off {_named(lost)}" if lost and size & {"-s", "--size", "-r", "--reference"} else ""


def _shred(run: Run, place: Place) -> str:
    lost = _lost(operands(run.arguments), place, run)
    return f"overwrites {_named(lost)}, so that it can't be read again" if lost else ""


def _dd(run: Run, place: Place) -> str:
    written = [Word(word.text[3:], word.known) for word in run.arguments if word.text.startswith("of=")]
    lost = _lost(written, place, run)
    return f"overwrites {_named(lost)}" if lost else ""


def _find(run: Run, place: Place) -> str:
    texts = [word.text for word in run.arguments]
    return "deletes what it finds" if "-delete" in texts and not _finds_spared(run, place) else ""


def _finds_spared(run: Run, place: Place) -> bool:
    """Whether all that ``find`` finds is made anew: by where it looks, or by the names that it looks for."""
    arguments = run.arguments
    first = next((at for at, word in enumerate(arguments) if word.text[:1] in {"-", "(", "!"}), len(arguments))
    starts = arguments[:first] or (Word("."),)
    names = [
        following.text.strip("*/") if option.text.endswith("path") else following.text
        for option, following in pairwise(arguments)
        if option.text in {"-name", "-iname", "-path", "-wholename"}
    ]
    inverted = any(word.text in {"!", "-not"} for word in arguments)
    by_name = bool(names) and not inverted and all(is_spared(Word(name), place) for name in names)
    return by_name or all(is_spared(word, place) for word in starts)


def _rsync(run: Run, place: Place) -> str:
    deletes = any(option.startswith("--del") for option in options(run.arguments))
    lost = _lost(operands(run.arguments)[-1:], place, run)
    return f"deletes what {_named(lost)} has more than its source" if deletes and lost else ""


def _lost(words: Iterable[Word], place: Place, run: Run) -> list[Word]:
    """The words that name what can't be got back. What ``find`` found is as spared as all that it finds."""
    if run.origin is not None and run.origin.program == "find" and _finds_spared(run.origin, place):
        return [word for word in words if word.known and not is_spared(word, place)]
    return [word for word in words if not is_spared(word, place)]


def _named(words: Sequence[Word]) -> str:
    more = f" and {len(words) - 1} more" if len(words) > 1 else ""
    first = words[0]
    return f"{'' if first.known else 'what is meant by '}{first.text[:80]!a}{more}"


def _shortened(option: str, least: int) -> frozenset[str]:
    """A long option, and what GNU programs and git take for it."""
    return frozenset(option[:length] for length in range(least, len(option) + 1))


def _git(run: Run, place: Place) -> str:
    at = 0
    while at < len(run.arguments) and run.arguments[at].text.startswith("-"):
        at += 2 if run.arguments[at].text in _GIT_VALUES else 1
    if at >= len(run.arguments):
        return ""
    name, arguments = run.arguments[at].text, run.arguments[at + 1 :]
    before = [word.text.lower() for word in run.arguments[:at]]
    if name == "clean" and "clean.requireforce=false" in before:
        arguments = (Word("-f"), *arguments)
    judge = _GIT_JUDGES.get(name)
    return judge(arguments, place) if judge else ""


_GIT_VALUES = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--attr-source"}
)


def _git_reset(arguments: Sequence[Word], _: Place) -> str:
    return "throws away what is not committed" if options(arguments) & _shortened("--hard", 4) else ""


def _git_clean(arguments: Sequence[Word], place: Place) -> str:
    given = options(arguments)
    harmless = given & {"-n", "-i", *_shortened("--dry-run", 3), *_shortened("--interactive", 3)}
    paths = operands(arguments)
    spared = bool(paths) and all(is_spared(word, place) for word in paths)
    forced = given & {"-f", *_shortened("--force", 3)}
    return "deletes files that git does not know" if forced and not harmless and not spared else ""


def _git_checkout(arguments: Sequence[Word], place: Place) -> str:
    given, texts = options(arguments), [word.text for word in arguments]
    if given & {"-f", *_shortened("--force", 3)}:
        return "throws away what is not committed"
    if given & {"-b", "-B", "-t", "--track", "--orphan", "-d", "--detach", "-p", "--patch"}:
        return ""
    paths = operands(arguments)
    if "--" in texts:
        paths = tuple(arguments[texts.index("--") + 1 :])
    elif len(paths) > 1:
        paths = paths[1:]  # the first is the commit to take them from
    elif not any(text in {".", ":/", "*"} or text.startswith("./") for text in texts):
        return ""  # a branch
    return _overwritten(paths, place)


def _git_restore(arguments: Sequence[Word], place: Place) -> str:
    given = options(arguments)
    staged = given & {"-S", *_shortened("--staged", 4)}
    worktree = given & {"-W", *_shortened("--worktree", 3)}
    if (staged and not worktree) or given & {"-p", "--patch"}:
        return ""
    return _overwritten(operands(arguments), place)


def _overwritten(paths: Sequence[Word], place: Place) -> str:
    lost = [word for word in paths if not is_spared(word, place)]
    return f"throws away what is not committed of {_named(lost)}" if lost else ""


def _git_switch(arguments: Sequence[Word], _: Place) -> str:
    forced = options(arguments) & {"-f", *_shortened("--force", 3), *_shortened("--discard-changes", 4)}
    return "throws away what is not committed" if forced else ""


def _git_stash(arguments: Sequence[Word], _: Place) -> str:
    return "throws away stashed work" if arguments and arguments[0].text in {"drop", "clear"} else ""


def _git_push(arguments: Sequence[Word], _: Place) -> str:
    given = options(arguments)
    forced = given & {"-f", "-d", "--mirror", "--prune", "--delete", "--force", "--force-with-lease"}
    by_name = any(word.text[:1] in {"+", ":"} for word in operands(arguments)[1:])
    harmless = given & {"-n", "--dry-run"}
    return "overwrites or deletes branches of the remote" if (forced or by_name) and not harmless else ""


def _git_rm(arguments: Sequence[Word], place: Place) -> str:
    given = options(arguments)
    lost = [word for word in operands(arguments) if not is_spared(word, place)]
    forced = given & {"-f", *_shortened("--force", 3)} and not given & {"--cached", "-n", "--dry-run"}
    return f"deletes {_named(lost)}, committed or not" if forced and lost else ""


def _git_history(arguments: Sequence[Word], _: Place) -> str:
    texts = {word.text for word in arguments}
    pruned = texts & {"expire", "delete"} or any(text.startswith("--prune=") for text in texts)
    return "deletes commits that nothing else keeps" if pruned else ""


_GIT_JUDGES: Final[Mapping[str, Callable[[Sequence[Word], Place], str]]] = {
    "checkout": _git_checkout,
    "clean": _git_clean,
    "filter-branch": lambda _arguments, _place: "rewrites the history",
    "filter-repo": lambda _arguments, _place: "rewrites the history",
    "gc": _git_history,
    "prune": lambda _arguments, _place: "deletes commits that nothing else keeps",
    "push": _git_push,
    "reflog": _git_history,
    "reset": _git_reset,
    "restore": _git_restore,
    "rm": _git_rm,
    "stash": _git_stash,
    "switch": _git_switch,
}

_JUDGES: Final[Mapping[str, Callable[[Run, Place], str]]] = {
    "dd": _dd,
    "find": _find,
    "git": _git,
    "rm": _rm,
    "rsync": _rsync,
    "shred": _shred,
    "truncate": _truncate,
    "unlink": _unlink,
}
