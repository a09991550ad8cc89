"""What commands of git destroy: work that is not committed, and commits that nothing else keeps. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gloveport.policy.commands import Word
from gloveport.policy.places import Place, is_spared, moved, named
from gloveport.policy.programs import Run, git_command, operands, options, shortened

_FORCE = frozenset({"-f", *shortened("--force", 3)})
_VERSION = re.compile(r".*\d\.(?:x|rc|alpha|beta|dev|pre|post|a|b)\d*")
_PATH = re.compile(r"\.{1,2}(?:/.*)?|:/.*|.*/|.*[*?\[].*|(?:.*/)?[^/]*\.[A-Za-z]\w{0,11}", re.DOTALL)
"""What is a file for ``git checkout``, and no branch."""
_UNCOMMITTED: Final = "throws away what is not committed"


def git_destroys(run: Run, place: Place) -> str:
    """What git destroys, as the end of a sentence about it; empty where it destroys nothing."""
    own, name, arguments = git_command(run.arguments)
    texts = [word.text for word in own]
    for at, text in enumerate(texts[:-1]):
        place = moved(place, own[at + 1]) if text == "-C" else place
    if name == "clean" and "clean.requireforce=false" in map(str.lower, texts):
        arguments = (Word("-f"), *arguments)
    judge = _JUDGES.get(name)
    return judge(arguments, place) if judge and (name == "push" or not _is_another(texts, place)) else ""


def _is_another(own: Sequence[str], place: Place) -> bool:
    """Whether the repository is none of the workspace. Git looks for it upwards."""
    elsewhere = place.directory is not None and place.is_outside(place.path_of(Word(".")) or "/")
    return elsewhere and not any(text.startswith(("--git-dir", "--work-tree")) for text in own)


def _reset(arguments: Sequence[Word], _: Place) -> str:
    thrown = options(arguments) & {*shortened("--hard", 4), *shortened("--merge", 3)}
    return _UNCOMMITTED if thrown else ""


def _clean(arguments: Sequence[Word], place: Place) -> str:
    given = options(arguments)
    harmless = given & {"-n", "-i", *shortened("--dry-run", 3), *shortened("--interactive", 3)}
    paths = operands(arguments)
    spared = bool(paths) and all(is_spared(word, place) for word in paths)
    return "deletes files that git does not know" if given & _FORCE and not harmless and not spared else ""


def _checkout(arguments: Sequence[Word], place: Place) -> str:
    given, texts = options(arguments), [word.text for word in arguments]
    if given & _FORCE:
        return _UNCOMMITTED
    if given & {"-b", "-B", "-t", "--track", "--orphan", "-d", "--detach", "-p", "--patch"}:
        return ""
    paths = operands(arguments)
    if "--" in texts:
        paths = tuple(arguments[texts.index("--") + 1 :])
    elif len(paths) > 1 and not _is_path(paths[0].text):
        paths = paths[1:]  # the first is the commit to take them from
    elif not any(_is_path(word.text) for word in paths):
        return ""  # a branch
    return _overwritten(paths, place)


def _is_path(text: str) -> bool:
    return bool(_PATH.fullmatch(text)) and not _VERSION.fullmatch(text)


def _restore(arguments: Sequence[Word], place: Place) -> str:
    given = options(arguments)
    staged = given & {"-S", *shortened("--staged", 4)}
    worktree = given & {"-W", *shortened("--worktree", 3)}
    if (staged and not worktree) or given & {"-p", "--patch"}:
        return ""
    return _overwritten(operands(arguments), place)


def _overwritten(paths: Sequence[Word], place: Place) -> str:
    lost = [word for word in paths if not is_spared(word, place)]
    return f"{_UNCOMMITTED} of {named(lost)}" if lost else ""


def _switch(arguments: Sequence[Word], _: Place) -> str:
    return _UNCOMMITTED if options(arguments) & {*_FORCE, *shortened("--discard-changes", 4)} else ""


def _stash(arguments: Sequence[Word], _: Place) -> str:
    return "throws away stashed work" if arguments and arguments[0].text in {"drop", "clear"} else ""


def _push(arguments: Sequence[Word], _: Place) -> str:
    given = options(arguments)
    forced = given & {"-f", "-d", "--mirror", "--prune", "--delete", "--force", "--force-with-lease"}
    by_name = any(word.text[:1] in {"+", ":"} for word in operands(arguments)[1:])
    harmless = given & {"-n", "--dry-run"}
    return "overwrites or deletes branches of the remote" if (forced or by_name) and not harmless else ""


def _rm(arguments: Sequence[Word], place: Place) -> str:
    given = options(arguments)
    lost = [word for word in operands(arguments) if not is_spared(word, place)]
    forced = given & _FORCE and not given & {"--cached", "-n", "--dry-run"}
    return f"deletes {named(lost)}, committed or not" if forced and lost else ""


def _branch(arguments: Sequence[Word], _: Place) -> str:
    given = options(arguments)
    deleted = "-D" in given or (given & {"-d", "--delete"} and given & _FORCE)
    return "deletes branches, merged or not" if deleted else ""


def _worktree(arguments: Sequence[Word], _: Place) -> str:
    removed = bool(arguments) and arguments[0].text == "remove" and options(arguments) & _FORCE
    return f"{_UNCOMMITTED} in another tree" if removed else ""


def _read_tree(arguments: Sequence[Word], _: Place) -> str:
    given = options(arguments)
    return _UNCOMMITTED if "-u" in given and "--reset" in given else ""


def _checkout_index(arguments: Sequence[Word], _: Place) -> str:
    given = options(arguments)
    forced = given & _FORCE and not any(option.startswith("--pre") for option in given)
    return _UNCOMMITTED if forced else ""


def _history(arguments: Sequence[Word], _: Place) -> str:
    texts = {word.text for word in arguments}
    pruned = texts & {"expire", "delete"} or any(text.startswith("--prune=") for text in texts)
    return "deletes commits that nothing else keeps" if pruned else ""


_JUDGES: Final[Mapping[str, Callable[[Sequence[Word], Place], str]]] = {
    "branch": _branch,
    "checkout": _checkout,
    "checkout-index": _checkout_index,
    "clean": _clean,
    "filter-branch": lambda _arguments, _place: "rewrites the history",
    "filter-repo": lambda _arguments, _place: "rewrites the history",
    "gc": _history,
    "prune": lambda _arguments, _place: "deletes commits that nothing else keeps",
    "push": _push,
    "read-tree": _read_tree,
    "reflog": _history,
    "reset": _reset,
    "restore": _restore,
    "rm": _rm,
    "stash": _stash,
    "switch": _switch,
    "worktree": _worktree,
}
