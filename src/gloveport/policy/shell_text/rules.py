"""Applies the rules of ``rules.toml`` to the programs and program texts of a command."""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Final, assert_never
from urllib.parse import urlsplit

from gloveport.policy.shell_text.directory import Directory, is_home, list_words
from gloveport.policy.shell_text.facts import Facts, ProgramRun
from gloveport.policy.shell_text.programs import read_programs, split_git
from gloveport.policy.shell_text.rulebook import CommandRule, Hosts, Lost, rulebook
from gloveport.policy.shell_text.scan import ScannedText
from gloveport.policy.shell_text.words import Word, operands, options
from gloveport.policy.wildcards import matches

UNNAMED_HOST: Final = ""
"""A host that the text does not name: an index of packages, a remote of git."""

_URL = re.compile(r"(?:https?|ftp|ssh|git|sftp)://\S+")
_SCP = re.compile(r"(?:[\w.-]+@)?([A-Za-z0-9][\w.-]*):(?!//)\S*")
_LOOPBACK = re.compile(r"localhost|.*\.localhost|127\.\d+\.\d+\.\d+|::1|0\.0\.0\.0")
_VERSION = re.compile(r".*\d\.(?:x|rc|alpha|beta|dev|pre|post|a|b)\d*")
_PATH = re.compile(r"\.{1,2}(?:/.*)?|:/.*|.*/|.*[*?\[].*|(?:.*/)?[^/]*\.[A-Za-z]\w{0,11}", re.DOTALL)
"""What is a file for ``git checkout``, and no branch."""
_FILE = re.compile(r"(?:[\w.-]+/)*[\w.-]*\w\.(?!d\Z)[A-Za-z]\w{0,11}")
"""A single file, by the look of its name: no pattern, and no directory (of which ``conf.d`` and the like have dots)."""


@dataclass(frozen=True, slots=True)
class RuleHit:
    """A rule that something in a command comes to.

    Attributes:
        rule: The rule.
        program: The name of the program; of a program text, what it is.
        text: The command that it stands in.
        effect: The end of a sentence about it.
        hosts: The hosts that are needed.
    """

    rule: CommandRule
    program: str
    text: str
    effect: str = ""
    hosts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Call:
    """One program's call, as rules see it: of git, that of its command.

    Attributes:
        run: The program.
        directory: Where it works.
        options: What may be an option.
        operands: The name of git's command among them.
        elsewhere: Whether its repository is none of the workspace.
    """

    run: ProgramRun
    directory: Directory
    options: frozenset[str]
    operands: tuple[Word, ...]
    elsewhere: bool = False


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
        hits = (_apply(rule, _call(run)) for rule in rules if rule.command and has_match(rule.command[0], run.program))
        yield from {hit.rule.gate: hit for hit in reversed([hit for hit in hits if hit])}.values()
    for script in facts.scripts if any(rule.source for rule in rules) else ():
        for rule in rules if script.interpreter != "sh" else ():
            found = rule.source.finditer(script.source) if rule.source else ()
            words = [word for each in found if not script.directory.is_spared(word := Word(each[1] or each[2]))]
            if words:
                effect = rule.effect.replace("{lost}", list_words(words[:1]))
                yield RuleHit(rule, f"A {script.interpreter} program", script.text, effect)
    if facts.scanned:
        yield from _scan("\n".join(facts.scanned), rules)


def _scan(text: str, rules: Sequence[CommandRule]) -> Iterator[RuleHit]:
    scanned = ScannedText(text)
    for rule in rules:
        if rule.source and (found := rule.source.search(text) or rule.source.search(text.replace("\\", ""))):
            lost = list_words([Word(found[1] or found[2])])
            yield RuleHit(rule, "A program", "", rule.effect.replace("{lost}", lost))
        elif scanned.has_hit(rule):
            hosts = [_host(found[0]) for found in _URL.finditer(text)] if rule.hosts else []
            if rule.hosts not in {None, "an index", "URLs"}:
                hosts += scanned.find_hosts()
            if rule.hosts and rule.hosts != "URLs" and not hosts:
                hosts = [UNNAMED_HOST]
            hosts = [host.lower() for host in hosts if not _LOOPBACK.fullmatch(host)]
            if hosts or not rule.hosts:
                name = min(rule.command[0] & scanned.words or rule.command[0])
                effect = rule.effect.replace("{lost}", "what is not read plainly")
                yield RuleHit(rule, name, "", effect, frozenset(hosts))


def has_match(patterns: AbstractSet[str], text: str) -> bool:
    """Tell whether a text is like one of some patterns, in which ``*`` stands for any characters."""
    return text in patterns or any("*" in pattern and matches(pattern, text) for pattern in patterns)


def _call(run: ProgramRun) -> _Call:
    if run.program != "git":
        return _Call(run, run.directory, options(run.arguments), operands(run.arguments))
    directory = run.directory
    own, command = split_git(run.arguments)
    for option, value in pairwise(own):
        directory = directory.change(value) if option.text == "-C" else directory
    arguments = command[1:]
    if "clean.requireforce=false" in {word.text.lower() for word in own}:
        arguments = (Word("-f"), *arguments)
    # git looks for its repository upwards
    elsewhere = directory.path is not None and directory.is_outside(directory.resolve(Word(".")) or "/")
    named = any(word.text.startswith(("--git-dir", "--work-tree")) for word in own)
    names = (*command[:1], *operands(arguments))
    return _Call(
        replace(run, arguments=tuple(arguments)), directory, options(arguments), names, elsewhere and not named
    )


def _apply(rule: CommandRule, call: _Call) -> RuleHit | None:
    verbs, rest = rule.command[1:], call.operands[len(rule.command) - 1 :]
    refused = rule.unless | rulebook().offline if rule.gate == "network" else rule.unless
    if (
        len(call.operands) < len(verbs)
        or not all(has_match(verb, word.text) for verb, word in zip(verbs, call.operands, strict=False))
        or not all(any(has_match(wanted, given) for given in call.options) for wanted in rule.options)
        or any(has_match(refused, given) for given in call.options)
        or (rule.local and rest and all(rule.local.fullmatch(word.text) for word in rest))
        or (rule.operand and not any(rule.operand.fullmatch(word.text) for word in rest))
        or (rule.gate == "destructive_command" and call.elsewhere and not rule.anywhere)
    ):
        return None
    hit = RuleHit(rule, call.run.program, call.run.text, rule.effect)
    if rule.hosts:
        hosts = frozenset(_hosts(rule.hosts, call, rest))
        return replace(hit, hosts=hosts) if hosts else None
    if rule.lost:
        words = [
            word
            for word in _lost_words(rule.lost, call, rest)
            if not (rule.ignore and rule.ignore.fullmatch(word.text))
        ]
        lost = [word for word in words if not _is_spared(word, call)]
        return replace(hit, effect=rule.effect.replace("{lost}", list_words(lost))) if lost else None
    return hit


def _lost_words(lost: Lost, call: _Call, operands: Sequence[Word]) -> Sequence[Word]:  # noqa: PLR0911 - one for each
    match lost:
        case "operands":
            return operands
        case "last operand":
            return operands[-1:]
        case "operands or all":
            return operands or (Word("", known=False),)
        case "operands that are many":
            return [word for word in operands if word.text.rpartition("/")[2] in {"*", ".*"} or call.run.origin]
        case "of=":
            return [Word(word.text[3:], word.known) for word in call.run.arguments if word.text.startswith("of=")]
        case "pathspecs":
            return _beyond_one_file(_pathspecs(call, operands))
        case "more than one file":
            return _beyond_one_file(operands or (Word("", known=False),))
        case "what find finds":
            return () if _finds_spared(call.run) else _find_starts(call.run)
        case "what leaves the workspace":
            return _moved_out(call)
        case _:
            assert_never(lost)


def _is_spared(word: Word, call: _Call) -> bool:
    """Whether nothing is lost with a word. What ``find`` found is as spared as all that it finds."""
    origin = call.run.origin
    found = not word.known and origin is not None and origin.program == "find" and _finds_spared(origin)
    return found or call.directory.is_spared(word)


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


def _moved_out(call: _Call) -> Sequence[Word]:
    """What ``mv`` moves to where it ends with the command."""
    *sources, target = call.operands or (Word("."),)
    for option, following in pairwise((*call.run.arguments, Word(""))):
        name, _, value = option.text.partition("=")
        if option.text == "-t" or name == "--target-directory":
            target = Word(value, option.known) if value else following
            sources = [word for word in call.operands if word is not target]
    path = call.directory.resolve(target)
    return sources if is_home(target) or (path is not None and call.directory.is_outside(path)) else ()


def _pathspecs(call: _Call, operands: Sequence[Word]) -> Sequence[Word]:
    """The files that ``git checkout`` takes from a commit, or from the index."""
    texts = [word.text for word in call.run.arguments]
    if any(text.startswith("--pathspec-f") for text in texts):  # a file names them
        return (Word("", known=False),)
    if "--" in texts:
        return call.run.arguments[texts.index("--") + 1 :]
    if len(operands) > 1 and not _is_path(operands[0].text):
        return operands[1:]
    return operands if any(_is_path(word.text) for word in operands) else ()  # else a branch


def _beyond_one_file(words: Sequence[Word]) -> Sequence[Word]:
    """All words, or none where they are one file that is named in full: whoever names it means it."""
    is_one = len(words) == 1 and words[0].known and _FILE.fullmatch(words[0].text) is not None
    return () if is_one else words


def _is_path(text: str) -> bool:
    return bool(_PATH.fullmatch(text)) and not _VERSION.fullmatch(text)


def _hosts(hosts: Hosts, call: _Call, operands: Sequence[Word]) -> Iterator[str]:
    match hosts:
        case "an index":
            found = [UNNAMED_HOST]
        case "URLs":  # a bare name is one for programs that fetch; it is not taken for one here
            found = [_host(word.text) for word in call.run.arguments if _URL.match(word.text)]
        case "first operand":
            found = [word.text.rpartition("@")[2].partition(":")[0] for word in operands[:1] if word.known]
        case "remote paths":
            found = [match[1] for word in operands if word.known and (match := _SCP.fullmatch(word.text))]
        case "git's remote":
            found = _git_hosts(operands[0].text if operands else "", call.operands[0].text)
        case _:
            assert_never(hosts)
    yield from (host.lower() for host in found if not _LOOPBACK.fullmatch(host))


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or UNNAMED_HOST
    except ValueError:
        return UNNAMED_HOST


def _git_hosts(remote: str, command: str) -> list[str]:
    if _URL.match(remote):
        return [_host(remote)]
    if found := _SCP.fullmatch(remote):
        return [found[1]]
    near = remote.startswith((".", "/", "~", "file://")) or (command == "clone" and "$" not in remote)
    return [] if near else [UNNAMED_HOST]
