"""Which programs a command starts, whatever starts them: wrappers, other shells, ``find -exec``. For explanations only.

Bounded as ``policy.shell`` is: so many levels of shells in shells, and so many programs in all.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from gloveport.policy.commands import Command, Scope, Word
from gloveport.policy.launchers import GIT_VALUES, RUNNERS, SHELLS, WRAPPERS
from gloveport.policy.shell import MOST_BYTES, MOST_EXPANDED, Reading, read

MOST_LEVELS: Final = 4
MOST_CHARACTERS: Final = 4096
"""Of all shells' texts together, the outermost aside: of each the grammar may take long."""
MOST_PROGRAMS: Final = 500

_SHELL_VALUES = re.compile(r"[-+][A-Za-z]*[oO][A-Za-z]*|--rcfile|--init-file")
_STDIN: Final = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_QUOTES: Final = "'\""
_ALIAS = re.compile(r"alias\.([^=]+)=(.*)", re.DOTALL | re.IGNORECASE)
_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|nodejs|node|php|bun|deno)[\d.]*")
_INLINE: Final[Mapping[str, re.Pattern[str]]] = {
    "python": re.compile(r"-[bBdEiIOPqsSuvx]*c(.*)", re.DOTALL),
    "pypy": re.compile(r"-[bBdEiIOPqsSuvx]*c(.*)", re.DOTALL),
    "perl": re.compile(r"-[\danplwWsi]*[eE](.*)", re.DOTALL),
    "ruby": re.compile(r"-[anplswW]*e(.*)", re.DOTALL),
    "node": re.compile(r"(?:-e|-p|-pe|--eval|--print)()"),
    "nodejs": re.compile(r"(?:-e|-p|-pe|--eval|--print)()"),
    "bun": re.compile(r"(?:-e|-p|--eval|--print)()"),
    "deno": re.compile(r"eval()"),
    "php": re.compile(r"-r(.*)", re.DOTALL),
}
"""Options that a program text follows, or is attached to."""
_INTERPRETER_VALUES = frozenset({"-W", "-X", "-I", "-M", "-r", "--require", "--import", "-C"})
_COMMAND_TEXT = re.compile(r"(?:-[a-z]*c|--command)()")
_SPLIT_TEXT = re.compile(r"(?:-[a-z0]*S|--split-string)()")
_SAME_SHELL: Final = frozenset({".", "eval", "source", "trap"})
"""What runs a text in the shell itself: a change of the directory there stays."""
_EXECUTES = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_ASSIGNMENT = re.compile(r"\w+=")


@dataclass(frozen=True, slots=True)
class Run:
    """One program that is started.

    Attributes:
        program: Its name, without directories.
        arguments: Without its name.
        text: What is written, wrappers and all.
        origin: What finds the arguments that the text does not tell: ``find``, or the program that ``xargs`` reads.
        scope: What it stands in, with others that are in the same directory.
    """

    program: str
    arguments: tuple[Word, ...]
    text: str
    origin: "Run | None" = None
    scope: Scope | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """A program text that is given in a command.

    Attributes:
        interpreter: ``python``, ``perl``, ``sh``, …
        source: The text.
        text: The command that it stands in.
        run: The number of the program that it is given to.
    """

    interpreter: str
    source: str
    text: str
    run: int = 0


@dataclass(slots=True)
class Facts:
    """What a command would do, as far as its text tells.

    Attributes:
        runs: In the order in which they are written.
        scripts: Of shells and interpreters.
        expansions: What the shell expands in other ways than by the value of a variable.
        unread: Why something of it was not read; empty where all was.
        room: Characters of texts for shells that may still be read.
        expandable: Characters that variables may still stand for.
    """

    runs: list[Run] = field(default_factory=list)
    scripts: list[Script] = field(default_factory=list)
    expansions: list[str] = field(default_factory=list)
    unread: str = ""
    room: int = MOST_CHARACTERS
    expandable: int = MOST_EXPANDED


def facts_of(command: str, stdin: str | None = None) -> Facts:
    """Tell what a command would do with what it is given to read. Raises nothing."""
    facts = Facts()
    _read(lambda room: read(command, stdin, room=room), facts, MOST_LEVELS)
    return facts


def options(arguments: Sequence[Word]) -> frozenset[str]:
    """The options among arguments: long ones without their value, of a cluster each letter as ``-x``."""
    found: set[str] = set()
    for word in arguments:
        if word.text == "--":
            break
        if word.text.startswith("--"):
            found.add(word.text.partition("=")[0])
        elif word.text.startswith("-"):
            found |= {f"-{letter}" for letter in word.text[1:]}
    return frozenset(found)


def shortened(option: str, least: int) -> frozenset[str]:
    """A long option, and what GNU programs and git take for it."""
    return frozenset(option[:length] for length in range(least, len(option) + 1))


def operands(arguments: Sequence[Word]) -> tuple[Word, ...]:
    """The arguments that are no options."""
    texts = [word.text for word in arguments]
    end = texts.index("--") if "--" in texts else len(texts)
    return tuple(word for word in arguments[:end] if word.text == "-" or word.text[:1] != "-") + tuple(
        arguments[end + 1 :]
    )


def git_command(arguments: Sequence[Word]) -> tuple[Sequence[Word], str, Sequence[Word]]:
    """What git is called with: its own options, the name of its command, and the arguments of that."""
    at = 0
    while at < len(arguments) and arguments[at].text.startswith("-"):
        at += 2 if arguments[at].text in GIT_VALUES else 1
    return arguments[:at], arguments[at].text if at < len(arguments) else "", arguments[at + 1 :]


def _read(reading: Callable[[int], Reading], facts: Facts, levels: int) -> None:
    if not levels or facts.room < 0:
        facts.unread = "it has too many shells in shells to be read"
        return
    found = reading(facts.expandable)
    facts.expandable = found.room
    facts.expansions += found.expansions
    facts.unread = facts.unread or found.unread
    for command in found.commands:
        _run(command.words, command, None, facts, levels)


def _run(words: Sequence[Word], command: Command, origin: Run | None, facts: Facts, levels: int) -> None:
    """Note the program that words start, and those that it starts."""
    while words:
        run = Run(_name(words[0]), tuple(words[1:]), command.text, origin, command.scope)
        if len(facts.runs) >= MOST_PROGRAMS:
            facts.unread = "it has too many commands to be read"
            return
        facts.runs.append(run)
        _texts(run, command, facts, levels)
        if run.program == "find":
            _executed(run, command, facts, levels)
        if run.program == "xargs" and command.source is not None:
            origin = Run(_name(command.source.words[0]), command.source.words[1:], command.source.text)
        words = _wrapped(run)
        if run.program == "xargs" and words:
            words = (*words, *_read_by_xargs(command, facts))


def _read_by_xargs(command: Command, facts: Facts) -> Iterator[Word]:
    """The operands that ``xargs`` appends, as far as they are known and there is room for them."""
    text = next(_stdin(command), "")[: min(MOST_BYTES, facts.expandable) + 1]
    pieces = [piece.strip(_QUOTES) for piece in re.split(r"[\s\0]+", text) if piece]
    known = bool(pieces) and len(text) <= min(MOST_BYTES, facts.expandable)
    facts.expandable -= len(text) if known else 0
    yield from (Word(piece) for piece in (pieces if known else ()))
    if not known:
        yield Word("what xargs reads", known=False)


def _name(word: Word) -> str:
    return word.text.rpartition("/")[2] if word.known else ""


def _wrapped(run: Run) -> Sequence[Word]:
    """The words of the command that a program starts; none where it starts none."""
    arguments = run.arguments
    if arguments and (runner := (run.program, arguments[0].text)) in RUNNERS:
        return _after_options(arguments[1:], RUNNERS[runner])
    if run.program not in WRAPPERS or (run.program == "command" and options(arguments[:1]) & {"-v", "-V"}):
        return ()
    valued, operands_first = WRAPPERS[run.program]
    rest = _after_options(arguments, valued)
    if run.program in {"env", "sudo"}:
        while rest and _ASSIGNMENT.match(rest[0].text):
            rest = rest[1:]
    return rest[operands_first:]


def _after_options(arguments: Sequence[Word], valued: AbstractSet[str] | re.Pattern[str]) -> Sequence[Word]:
    at = 0
    while at < len(arguments) and arguments[at].text.startswith(("-", "+")):
        if arguments[at].text == "--":
            return arguments[at + 1 :]
        text = arguments[at].text
        at += 2 if (text in valued if isinstance(valued, AbstractSet) else valued.fullmatch(text)) else 1
    return arguments[at:]


def _executed(run: Run, command: Command, facts: Facts, levels: int) -> None:
    """What ``find`` executes. The run that is its origin has the rest of its words."""
    rest = [word.text for word in run.arguments]
    words = list(run.arguments)
    while levels and (at := next((at for at, text in enumerate(rest) if text in _EXECUTES), None)) is not None:
        ends = [rest.index(end, at) for end in (";", "+") if end in rest[at:]]
        end = min(ends, default=len(rest))
        inner = [replace(word, known=False) if "{}" in word.text else word for word in words[at + 1 : end]]
        _run(inner, command, run, facts, levels - 1)
        rest, words = rest[end:], words[end:]


def _texts(run: Run, command: Command, facts: Facts, levels: int) -> None:
    """Note the texts that a program is given as programs, and read those for shells."""
    number, stdin = len(facts.runs) - 1, next(_stdin(command), None)
    for interpreter, source in _sources(run, stdin):
        facts.scripts.append(Script(interpreter, source, command.text, number))
        if interpreter == "sh":
            facts.room -= min(len(source), MOST_BYTES)
            _read(partial(_read_inside, source, stdin, command, run.program in _SAME_SHELL), facts, levels - 1)


def _read_inside(source: str, stdin: str | None, command: Command, same: bool, room: int) -> Reading:  # noqa: FBT001
    """Read a text that a command gives to the same shell, or to another."""
    given = None if source == stdin else stdin
    scope, variables = (command.scope, command.variables) if same else (Scope(command.scope), {})
    return read(source, given, scope, room, variables)


def _sources(run: Run, stdin: str | None) -> Iterator[tuple[str, str]]:
    arguments = run.arguments
    interpreter = _INTERPRETER.fullmatch(run.program)
    if run.program in SHELLS:
        yield from (("sh", text) for text in _of_shell(arguments, stdin))
    elif run.program == "eval":
        yield "sh", " ".join(word.text for word in arguments)
    elif run.program == "trap":
        yield from (("sh", word.text) for word in operands(arguments)[:1] if len(arguments) > 1 and word.text)
    elif run.program in {".", "source"} and arguments and arguments[0].text in _STDIN:
        yield from (("sh", text) for text in _given(stdin))
    elif run.program == "git":
        yield from (("sh", text) for text in _of_git(arguments))
    elif run.program in {"su", "script", "flock"}:
        yield from (("sh", text) for text in _following(arguments, _COMMAND_TEXT))
    elif run.program == "env":
        yield from (("sh", text) for text in _following(arguments, _SPLIT_TEXT))
    elif interpreter:
        before = _before_operands(arguments)
        inline = list(_following(before, _INLINE[interpreter[1]]))
        from_stdin = not inline and all(word.text in _STDIN for word in operands(arguments))
        yield from ((interpreter[1], text) for text in (_given(stdin) if from_stdin else inline))


def _before_operands(arguments: Sequence[Word]) -> Sequence[Word]:
    """The options of an interpreter, and the one word after them."""
    rest = _after_options(arguments, _INTERPRETER_VALUES)
    following = 2 if rest and rest[0].text == "eval" else 1  # Deno's option is a word
    return arguments[: len(arguments) - len(rest) + following]


def _following(arguments: Sequence[Word], option: re.Pattern[str]) -> Iterator[str]:
    """What is attached to an option, or follows it."""
    for word, following in itertools.pairwise((*arguments, Word(""))):
        if found := option.fullmatch(word.text):
            yield found[1] or following.text
            return


def _of_shell(arguments: Sequence[Word], stdin: str | None) -> Iterator[str]:
    rest = _after_options(arguments, _SHELL_VALUES)
    given = arguments[: len(arguments) - len(rest)]
    if any(re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", word.text) for word in given):
        yield from (word.text for word in rest[:1])
    elif not rest or rest[0].text in _STDIN or "-s" in options(given):
        yield from _given(stdin)


def _of_git(arguments: Sequence[Word]) -> Iterator[str]:
    """The texts for shells that git is given: for each submodule, or as another name of itself."""
    own, name, rest = git_command(arguments)
    for at, word in enumerate(rest if name == "submodule" else ()):
        if word.text == "foreach":
            yield " ".join(each.text for each in _after_options(rest[at + 1 :], frozenset()))
            break
    for word in own:
        if (alias := _ALIAS.fullmatch(word.text)) and alias[1] == name:
            yield alias[2][1:] if alias[2].startswith("!") else f"git {alias[2]}"


def _given(text: str | None) -> Iterator[str]:
    yield from (text,) if text else ()


def _stdin(command: Command) -> Iterator[str]:
    """What a command reads, where its text tells."""
    source = command.source
    if command.stdin is not None:
        yield command.stdin
    elif source is not None and _name(source.words[0]) in {"echo", "printf"}:
        yield " ".join(word.text for word in operands(source.words[1:]))
    elif source is not None and _name(source.words[0]) in {"cat", "tee"} and source.stdin is not None:
        yield source.stdin
