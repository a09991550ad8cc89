"""Which commands destroy what an owner can't get back: work in the tree, or in git, that nothing makes anew. Pure.

Only what is plain to see counts. A script file may do all of it, and is not read.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from gloveport.policy.commands import Word
from gloveport.policy.git_commands import git_destroys
from gloveport.policy.places import Place, is_home, is_spared, named
from gloveport.policy.programs import Run, Script, operands, options, shortened

_CALLS = re.compile(
    r"\b(?:rmtree|removedirs|os\.(?:remove|unlink|rmdir)|unlink|remove_tree|rm_rf?|File\.delete|fs\.rm|rmSync|unlinkSync"
    r"|rmdirSync)\b\s*\(?\s*(?:glob\b\s*\(?\s*)?['\"<]([^'\">\n]{1,256})['\">]"
    r"|\bPath\(['\"]([^'\"\n]{1,256})['\"]\)\.(?:unlink|rmdir)\b"
)
"""Calls of Python, Perl, Ruby and JavaScript that delete what is written in them."""


def destroys(run: Run, place: Place) -> str:
    """What a program destroys, as the end of a sentence about it; empty where it destroys nothing."""
    if run.program.startswith("mkfs"):
        return "makes a new file system over what is there"
    judge = _JUDGES.get(run.program)
    return judge(run, place) if judge else ""


def script_destroys(script: Script, place: Place) -> str:
    """The same of a program text. Only calls whose argument is written in it count."""
    for found in _CALLS.finditer(script.source) if script.interpreter != "sh" else ():
        given = Word(found[1] or found[2])
        if not is_spared(given, place):
            return f"deletes {named([given])}"
    return ""


def _rm(run: Run, place: Place) -> str:
    given = options(run.arguments)
    lost = _lost(operands(run.arguments), place, run)
    if given & {"-r", "-R", *shortened("--recursive", 3)}:
        return f"deletes {named(lost)} with all that is in it" if lost else ""
    every = [word for word in lost if word.text.rpartition("/")[2] in {"*", ".*"} or run.origin]
    return f"deletes {named(every)}" if every else ""


def _unlink(run: Run, place: Place) -> str:
    lost = _lost(operands(run.arguments), place, run)
    return f"deletes {named(lost)}" if lost else ""


def _truncate(run: Run, place: Place) -> str:
    size = options(run.arguments)
    lost = [
        word for word in _lost(operands(run.arguments), place, run) if not re.fullmatch(r"[+<>/%]?\d+\w*", word.text)
    ]
    return f"cuts off {named(lost)}" if lost and size & {"-s", "--size", "-r", "--reference"} else ""


def _shred(run: Run, place: Place) -> str:
    lost = _lost(operands(run.arguments), place, run)
    return f"overwrites {named(lost)}, so that it can't be read again" if lost else ""


def _dd(run: Run, place: Place) -> str:
    written = [Word(word.text[3:], word.known) for word in run.arguments if word.text.startswith("of=")]
    lost = _lost(written, place, run)
    return f"overwrites {named(lost)}" if lost else ""


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
    by_name = bool(names) and not inverted and all(place.is_disposable(name) for name in names)
    return by_name or all(is_spared(word, place) for word in starts)


def _rsync(run: Run, place: Place) -> str:
    deletes = any(option.startswith("--del") for option in options(run.arguments))
    lost = _lost(operands(run.arguments)[-1:], place, run)
    return f"deletes what {named(lost)} has more than its source" if deletes and lost else ""


def _mv(run: Run, place: Place) -> str:
    """Moving is deleting where the target ends with the command."""
    target, sources = _target(run)
    path = place.path_of(target) if target is not None else None
    outside = path is not None and place.is_outside(path)
    lost = _lost(sources, place, run) if outside or (target is not None and is_home(target)) else []
    return f"moves {named(lost)} out of the workspace, where it ends with the command" if lost else ""


def _cp(run: Run, place: Place) -> str:
    target, sources = _target(run)
    lost = _lost([target] if target else [], place, run)
    return f"cuts off {named(lost)}" if lost and [word.text for word in sources] == ["/dev/null"] else ""


def _target(run: Run) -> tuple[Word | None, Sequence[Word]]:
    """Where a program copies or moves something, and what."""
    every = operands(run.arguments)
    for option, following in pairwise((*run.arguments, Word(""))):
        if option.text in {"-t", "--target-directory"}:
            return following, [word for word in every if word is not following]
        if option.text.startswith("--target-directory="):
            return replace(option, text=option.text.partition("=")[2]), every
    return (every[-1], every[:-1]) if len(every) > 1 else (None, every)


def _cut(run: Run, place: Place) -> str:
    lost = _lost(run.arguments, place, run)
    return f"cuts off {named(lost)}" if lost else ""


def _lost(words: Iterable[Word], place: Place, run: Run) -> list[Word]:
    """The words that name what can't be got back. What ``find`` found is as spared as all that it finds."""
    if run.origin is not None and run.origin.program == "find" and _finds_spared(run.origin, place):
        return [word for word in words if word.known and not is_spared(word, place)]
    return [word for word in words if not is_spared(word, place)]


_JUDGES: Final[Mapping[str, Callable[[Run, Place], str]]] = {
    ">": _cut,
    "cp": _cp,
    "dd": _dd,
    "find": _find,
    "git": git_destroys,
    "mv": _mv,
    "rm": _rm,
    "rsync": _rsync,
    "shred": _shred,
    "truncate": _truncate,
    "unlink": _unlink,
}
