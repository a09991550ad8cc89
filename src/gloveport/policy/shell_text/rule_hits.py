"""Applies the rules of ``rules.toml`` to the programs and program texts of a command, and to its unread text."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gloveport.policy.shell_text.directory import PATTERN, Directory
from gloveport.policy.shell_text.programs import ProgramRun, find_results
from gloveport.policy.shell_text.reader import Facts, read_programs
from gloveport.policy.shell_text.rulebook import CommandRule, rulebook
from gloveport.policy.shell_text.words import Word, after_options, operands, options, unescape_ansi
from gloveport.policy.wildcards import has_match

UNNAMED_HOST: Final = ""
"""A host that the text does not name: a package index, a git remote."""

_LOOPBACK = re.compile(r"localhost|.*\.localhost|127\.\d+\.\d+\.\d+|\[?::1\]?|0\.0\.0\.0")
_MOST_CHARACTERS: Final = 1 << 18
_SEPARATORS = re.compile(r"[\s;&|()<>`,{}!\[\]$]+")
_QUOTES = re.compile(r"['\"\\]")
_CUTS = re.compile(r"(?:^|[;&|:({\n]|\btrue|/dev/null|echo -n)\s*>\|?(?![>&])|['\"]>(?![>&])")
_MADE_OPTION = re.compile(r"""(?:^|\s)["']?--?["']?\$""")
_URL = re.compile(r"(?:https?|ftp|ssh|git|sftp)://(?:[^\s/@]*@)?([^\s/:?#]*)")
_HOST = re.compile(r"(?:[\w.+-]+@)?([\w-]+(?:\.[\w-]+)+|(?<=@)[\w-]+)(?::.*)?")


class RuleHit(Struct, frozen=True):
    """A rule that a command comes to: ``effect`` ends a sentence about ``program``, which is in ``text``.

    ``lost`` has the absolute paths of all that is lost; it is empty if the text does not tell all of them.
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
    """The rules that a command comes to: the first one of each gate for each program."""
    for run in facts.runs:
        hits = [hit for rule in rules if (hit := _apply(rule, run))]
        yield from {hit.rule.gate: hit for hit in reversed(hits)}.values()
    if facts.unread:
        scanned = _ScannedText("\n".join(facts.texts))
        for rule in rules:
            name = min(rule.command[0] & scanned.words or rule.command[0]) if rule.command else "A program"
            effect = rule.effect.replace("{lost}", "what is not read plainly")
            hosts = scanned.find_hosts(rule)
            if scanned.has_hit(rule) and (hosts or not rule.hosts):
                yield RuleHit(rule, name, "", effect, hosts)


def _apply(rule: CommandRule, run: ProgramRun) -> RuleHit | None:
    if run.source is not None:
        found = list(rule.source.finditer(run.source)) if rule.source and run.program != "sh" else []
        deleted = [Word(each[1] or each[2]) for each in found]
        return _hit(rule, replace(run, program=f"A {run.program} program"), deleted) if deleted else None
    if not rule.command or not has_match(rule.command[0], run.program):
        return None
    is_git, verbs = run.program == "git", rule.command[1:]
    arguments = after_options(run.arguments, rulebook().git_values) if is_git else run.arguments
    names, all_options, own_options = operands(arguments), options(run.arguments), options(arguments)
    rest = names[len(verbs) :]
    counted = [word for word in rest if not (rule.ignore and rule.ignore.fullmatch(word.text))]
    elsewhere = is_git and _is_git_elsewhere(run.directory, run.arguments[: len(run.arguments) - len(arguments)])
    refused = rule.unless | rulebook().offline if rule.gate == "network" else rule.unless
    if (
        len(names) < len(verbs)
        or not all(has_match(verb, word.text) for verb, word in zip(verbs, names, strict=False))
        or not all(any(has_match(option, each) for each in all_options) for option in rule.options)
        or any(has_match(refused, each) for each in own_options)
        or (rest and not counted)
        or (rule.operand and not any(rule.operand.fullmatch(word.text) for word in rest))
        or (rule.harmless and rule.harmless.fullmatch("".join(f"{word.text}\n" for word in arguments[len(verbs) :])))
        or (rule.gate == "destructive_command" and elsewhere and not rule.anywhere)
    ):
        return None
    if rule.hosts:
        searched = rest[:1] or (Word(""),) if rule.hosts_in == "first operand" else counted
        hosted = [match for word in searched if (match := rule.hosts.fullmatch(word.text))]
        hosts = _without_loopback(next(filter(None, match.groups()), UNNAMED_HOST) for match in hosted)
        return RuleHit(rule, run.program, run.text, rule.effect, hosts) if hosts else None
    return _hit(rule, run, _lost_words(rule, run, counted))


def _is_git_elsewhere(directory: Directory, own: Sequence[Word]) -> bool:
    """Whether the repository that git finds from here upwards is outside the workspace."""
    for option, value in pairwise(own):
        directory = directory.change(value) if option.text == "-C" else directory
    return directory.is_elsewhere(Word(".")) and not any(
        word.text.startswith(("--git-dir", "--work-tree")) for word in own
    )


def _hit(rule: CommandRule, run: ProgramRun, words: Sequence[Word]) -> RuleHit | None:
    lost = [word for word in words if not run.directory.is_spared(word)]
    if not lost and (rule.lost or rule.source):
        return None
    paths = [word.known and not PATTERN.search(word.text) and run.directory.resolve(word) for word in lost]
    effect = rule.effect.replace("{lost}", _list_words(lost))
    return RuleHit(
        rule,
        run.program,
        run.text,
        effect,
        lost=tuple(path for path in paths if path) if rule.lost and all(paths) else (),
    )


def _list_words(words: Sequence[Word]) -> str:
    first = "".join(f"{'' if word.known else 'what is meant by '}{word.text[:80]!a}" for word in words[:1])
    return f"{first} and {len(words) - 1} more" if len(words) > 1 else first


def _lost_words(rule: CommandRule, run: ProgramRun, counted: Sequence[Word]) -> Sequence[Word]:
    words = find_results(run) if rule.lost == "what find finds" else counted
    if rule.lost == "operands or all":
        words = words or [Word("", known=False)]
    elif rule.lost == "last operand":
        words = words[-1:]
    elif rule.lost == "what leaves the workspace" and not all(map(run.directory.is_elsewhere, words[-1:])):
        words = ()
    named = ((word, rule.lost_word.fullmatch(word.text)) for word in words)
    return [replace(word, text=found[1]) for word, found in named if found]


class _ScannedText:
    """The words of an unread text, in any order: a false alarm is better than a miss."""

    def __init__(self, text: str) -> None:
        self._text = text = text[:_MOST_CHARACTERS]
        forms = [_QUOTES.sub(mark, each) for each in (text, unescape_ansi(text)) for mark in ("", " ")]
        words = {word for form in forms for word in _SEPARATORS.split(form) if word}
        self.words = words.union(*(word.split("=") for word in words if "=" in word))
        self._names = self.words | {word.rpartition("/")[2] for word in self.words}
        self._options = frozenset().union(*(options([Word(word)]) for word in self.words if word != "--"))
        self._makes_options = bool(_MADE_OPTION.search(text))
        if any(_CUTS.search(form) for form in (text, *forms)):
            self._names.add(">")

    def has_hit(self, rule: CommandRule) -> bool:
        """Tell whether the text has all words of a rule, anywhere."""
        if rule.source:
            return bool(rule.source.search(self._text) or rule.source.search(self._text.replace("\\", "")))
        return (
            rule.gate
            != "privileged_executable"  # such programs can't work here anyway, and nobody could permit a false alarm
            and all(any(has_match(part, name) for name in self._names) for part in rule.command)
            and all(
                self._makes_options or any(has_match(each, name) for name in self._options) for each in rule.options
            )
            and (rule.operand is None or any(rule.operand.fullmatch(word) for word in self.words))
        )

    def find_hosts(self, rule: CommandRule) -> frozenset[str]:
        """The hosts that a rule may be about: every word like a host, and ``UNNAMED_HOST`` for one not named."""
        if not rule.hosts:
            return frozenset()
        named = {found[1] for word in self.words if (found := _HOST.fullmatch(word))} if rule.hosts.groups else set()
        others = {"", *named} if rule.hosts_in != "arguments" else set()
        return _without_loopback([*_URL.findall(self._text), *others])


def _without_loopback(hosts: Iterable[str]) -> frozenset[str]:
    return frozenset(host.lower() for host in hosts if not _LOOPBACK.fullmatch(host.lower()))
