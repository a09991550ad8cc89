"""Applies the rules of ``rules.toml`` to the programs and program texts of a command, and to what of it is not read."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from gloveport.policy.shell_text.directory import Directory, is_home, list_words
from gloveport.policy.shell_text.programs import ProgramRun
from gloveport.policy.shell_text.reader import Facts, read_programs
from gloveport.policy.shell_text.rulebook import CommandRule, rulebook
from gloveport.policy.shell_text.word_scan import ScannedText
from gloveport.policy.shell_text.words import Word, after_options, operands, options
from gloveport.policy.wildcards import has_match

UNNAMED_HOST: Final = ""
"""A host that the text does not name: an index of packages, a remote of git."""

_LOOPBACK = re.compile(r"localhost|.*\.localhost|127\.\d+\.\d+\.\d+|\[?::1\]?|0\.0\.0\.0")
_VERSION = re.compile(r".*\d\.(?:x|rc|alpha|beta|dev|pre|post|a|b)\d*")
_PATH = re.compile(r"\.{1,2}(?:/.*)?|:/.*|.*/|.*[*?\[].*|(?:.*/)?[^/]*\.[A-Za-z]\w{0,11}", re.DOTALL)
"""What is a file for ``git checkout``, and no branch."""
_FILE = re.compile(r"(?:[\w.-]+/)*[\w.-]*\w\.(?!d\Z)[A-Za-z]\w{0,11}")
"""A single file, by the look of its name: no pattern, and no directory (of which ``conf.d`` and the like have dots)."""


class RuleHit(Struct, frozen=True):
    """A rule that a command comes to: ``effect`` ends a sentence about ``program``, which stands in ``text``.

    ``lost`` are the absolute paths of all that is lost; none where the text does not tell all of them.
    """

    rule: CommandRule
    program: str
    text: str
    effect: str
    hosts: frozenset[str] = frozenset()
    lost: tuple[str, ...] = ()


@cache
def load_rules() -> tuple[CommandRule, ...]:
    """The rules for commands. Raises ``RuleError`` where one of them contradicts its examples."""
    rules, directory = rulebook().rules, Directory("/workspace", ".", rulebook().disposable)
    for rule in rules:
        rule.check(each for each in rule.examples if any(find_hits(read_programs(each, directory), (rule,))))
    return rules


def find_hits(facts: Facts, rules: Sequence[CommandRule]) -> Iterator[RuleHit]:
    """The rules that a command comes to: of each gate the first for each program."""
    for run in facts.runs:
        hits = [hit for rule in rules if (hit := _apply(rule, run))]
        yield from {hit.rule.gate: hit for hit in reversed(hits)}.values()
    if facts.unread:
        scanned = ScannedText("\n".join(facts.texts))
        for rule in rules:
            name = min(rule.command[0] & scanned.words or rule.command[0]) if rule.command else "A program"
            effect = rule.effect.replace("{lost}", "what is not read plainly")
            hosts = {host.lower() for host in scanned.find_hosts(rule) if not _LOOPBACK.fullmatch(host)}
            if scanned.has_hit(rule) and (hosts or not rule.hosts):
                yield RuleHit(rule, name, "", effect, frozenset(hosts))


def _apply(rule: CommandRule, run: ProgramRun) -> RuleHit | None:
    if run.source is not None:
        deleted = rule.source.finditer(run.source) if rule.source and run.program != "sh" else ()
        lost = [word for each in deleted if not run.directory.is_spared(word := Word(each[1] or each[2]))]
        return _hit(rule, replace(run, program=f"A {run.program} program"), lost) if lost else None
    if not rule.command or not has_match(rule.command[0], run.program):
        return None
    run, elsewhere = _without_git_options(run) if run.program == "git" else (run, False)
    names, given = operands(run.arguments), options(run.arguments)
    verbs, rest = rule.command[1:], names[len(rule.command) - 1 :]
    refused = rule.unless | rulebook().offline if rule.gate == "network" else rule.unless
    if (
        len(names) < len(verbs)
        or not all(has_match(verb, word.text) for verb, word in zip(verbs, names, strict=False))
        or not all(any(has_match(wanted, each) for each in given) for wanted in rule.options)
        or any(has_match(refused, each) for each in given)
        or (rule.local and rest and all(rule.local.fullmatch(word.text) for word in rest))
        or (rule.operand and not any(rule.operand.fullmatch(word.text) for word in rest))
        or (rule.gate == "destructive_command" and elsewhere and not rule.anywhere)
    ):
        return None
    if rule.hosts:
        searched = {"arguments": run.arguments, "operands": rest, "first operand": rest[:1] or (Word(""),)}[
            rule.hosts_in
        ]
        found = [match for word in searched if (match := rule.hosts.fullmatch(word.text))]
        named = {next(filter(None, match.groups()), UNNAMED_HOST).lower() for match in found}
        hosts = frozenset(host for host in named if not _LOOPBACK.fullmatch(host))
        return RuleHit(rule, run.program, run.text, rule.effect, hosts) if hosts else None
    if rule.lost is None:
        return _hit(rule, run, ())
    lost = [word for word in _lost_words(rule, run, rest) if not _is_spared(word, run)]
    return _hit(rule, run, lost) if lost else None


def _hit(rule: CommandRule, run: ProgramRun, lost: Sequence[Word]) -> RuleHit:
    paths = [run.directory.resolve_literal(word) for word in lost] if rule.source is None else []
    return RuleHit(
        rule,
        run.program,
        run.text,
        rule.effect.replace("{lost}", list_words(lost) if lost else ""),
        lost=tuple(path for path in paths if path is not None) if None not in paths else (),
    )


def _without_git_options(run: ProgramRun) -> tuple[ProgramRun, bool]:
    """A call of git without its own options, and whether its repository is none of the workspace."""
    arguments = after_options(run.arguments, rulebook().git_values)
    own, directory = run.arguments[: len(run.arguments) - len(arguments)], run.directory
    for option, value in pairwise(own):
        directory = directory.change(value) if option.text == "-C" else directory
    if any(word.text.lower() == "clean.requireforce=false" for word in own):
        arguments = (*arguments, Word("-f"))
    # git looks for its repository upwards
    elsewhere = directory.path is not None and directory.is_outside(directory.resolve(Word(".")) or "/")
    named = any(word.text.startswith(("--git-dir", "--work-tree")) for word in own)
    return replace(run, arguments=tuple(arguments), directory=directory), elsewhere and not named


def _lost_words(rule: CommandRule, run: ProgramRun, operands: Sequence[Word]) -> Sequence[Word]:  # noqa: PLR0911
    every = (Word("", known=False),)
    match rule.lost:
        case None | "operands":
            return [word for word in operands if not (rule.ignore and rule.ignore.fullmatch(word.text))]
        case "last operand":
            return operands[-1:]
        case "operands or all":
            return operands or every
        case "operands that are many":
            return [word for word in operands if word.text.rpartition("/")[2] in {"*", ".*"} or run.origin]
        case "of=":
            return [Word(word.text[3:], word.known) for word in run.arguments if word.text.startswith("of=")]
        case "pathspecs":
            return _beyond_one_file(_pathspecs(run, operands))
        case "more than one file":
            return _beyond_one_file(operands or every)
        case "what find finds":
            return () if _finds_spared(run) else _find_starts(run)
        case "what leaves the workspace":
            return _moved_out(run, operands)
        case _:
            assert_never(rule.lost)


def _is_spared(word: Word, run: ProgramRun) -> bool:
    """Whether nothing is lost with a word. What ``find`` found is as spared as all that it finds."""
    found = not word.known and run.origin is not None and run.origin.program == "find" and _finds_spared(run.origin)
    return found or run.directory.is_spared(word)


def _find_starts(run: ProgramRun) -> Sequence[Word]:
    first = next((at for at, word in enumerate(run.arguments) if word.text[:1] in {"-", "(", "!"}), len(run.arguments))
    return run.arguments[:first] or (Word("."),)


def _finds_spared(run: ProgramRun) -> bool:
    """Whether all that ``find`` finds is made anew: by where it looks, or by the names that it looks for."""
    names = [
        following.text.strip("*/") if option.text.endswith("path") else following.text
        for option, following in pairwise(run.arguments)
        if option.text in {"-name", "-iname", "-path", "-wholename"}
    ]
    inverted = any(word.text in {"!", "-not"} for word in run.arguments)
    by_name = bool(names) and not inverted and all(run.directory.is_disposable(name) for name in names)
    return by_name or all(run.directory.is_spared(word) for word in _find_starts(run))


def _moved_out(run: ProgramRun, operands: Sequence[Word]) -> Sequence[Word]:
    """What ``mv`` moves to where it ends with the command."""
    *sources, target = operands or (Word("."),)
    for option, following in pairwise((*run.arguments, Word(""))):
        name, _, value = option.text.partition("=")
        if option.text == "-t" or name == "--target-directory":
            target = Word(value, option.known) if value else following
            sources = [word for word in operands if word is not target]
    path = run.directory.resolve(target)
    return sources if is_home(target) or (path is not None and run.directory.is_outside(path)) else ()


def _pathspecs(run: ProgramRun, operands: Sequence[Word]) -> Sequence[Word]:
    """The files that ``git checkout`` takes from a commit, or from the index."""
    texts = [word.text for word in run.arguments]
    if any(text.startswith("--pathspec-f") for text in texts):  # a file names them
        return (Word("", known=False),)
    if "--" in texts:
        return run.arguments[texts.index("--") + 1 :]
    if len(operands) > 1 and not _is_path(operands[0].text):
        return operands[1:]
    return operands if any(_is_path(word.text) for word in operands) else ()  # else a branch


def _beyond_one_file(words: Sequence[Word]) -> Sequence[Word]:
    """All words, or none where they are one file that is named in full: whoever names it means it."""
    is_one = len(words) == 1 and words[0].known and _FILE.fullmatch(words[0].text) is not None
    return () if is_one else words


def _is_path(text: str) -> bool:
    return bool(_PATH.fullmatch(text)) and not _VERSION.fullmatch(text)
