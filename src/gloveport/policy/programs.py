"""Which programs a command starts, whatever starts them: wrappers, other shells, ``find -exec``. For explanations only.

Bounded as ``policy.shell`` is: so many levels of shells in shells, and so many programs in all.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from gloveport.policy.shell import Command, Word, read

MOST_LEVELS: Final = 4
MOST_CHARACTERS: Final = 4096
"""Of all shells' texts together, the outermost aside: of each the grammar may take long."""
MOST_PROGRAMS: Final = 500

_NO_OPTIONS: Final[AbstractSet[str]] = frozenset()
WRAPPERS: Final[Mapping[str, tuple[AbstractSet[str], int]]] = {
    "builtin": (_NO_OPTIONS, 0),
    "busybox": (_NO_OPTIONS, 0),
    "chroot": (_NO_OPTIONS, 1),
    "command": (_NO_OPTIONS, 0),
    "doas": (frozenset({"-u", "-C"}), 0),
    "env": (frozenset({"-u", "--unset", "-C", "--chdir"}), 0),
    "exec": (frozenset({"-a"}), 0),
    "flock": (frozenset({"-w", "--timeout", "-E"}), 1),
    "ionice": (frozenset({"-c", "--class", "-n", "--classdata"}), 0),
    "nice": (frozenset({"-n", "--adjustment"}), 0),
    "nohup": (_NO_OPTIONS, 0),
    "setsid": (_NO_OPTIONS, 0),
    "stdbuf": (frozenset({"-i", "-o", "-e", "--input", "--output", "--error"}), 0),
    "strace": (frozenset({"-e", "-o", "-p", "-s"}), 0),
    "sudo": (frozenset({"-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-U"}), 0),
    "time": (frozenset({"-f", "--format", "-o", "--output"}), 0),
    "timeout": (frozenset({"-k", "--kill-after", "-s", "--signal"}), 1),
    "toybox": (_NO_OPTIONS, 0),
    "watch": (frozenset({"-n", "--interval"}), 0),
    "xargs": (frozenset({"-a", "-d", "-E", "-I", "-L", "-n", "-P", "-s"}), 0),
}
"""Programs that start another: their options that take a value, and their operands before the other's name."""

RUNNERS: Final = frozenset(
    {("bundle", "exec"), ("npm", "exec"), ("pipenv", "run"), ("pnpm", "exec"), ("poetry", "run"), ("uv", "run")}
)
SHELLS: Final = frozenset({"ash", "bash", "dash", "fish", "ksh", "mksh", "rbash", "sh", "zsh"})
_SHELL_VALUES = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
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
    """

    program: str
    arguments: tuple[Word, ...]
    text: str
    origin: "Run | None" = None


@dataclass(frozen=True, slots=True)
class Script:
    """A program text that is given in a command.

    Attributes:
        interpreter: ``python``, ``perl``, ``sh``, …
        source: The text.
        text: The command that it stands in.
    """

    interpreter: str
    source: str
    text: str


@dataclass(slots=True)
class Facts:
    """What a command would do, as far as its text tells.

    Attributes:
        runs: In the order in which they are written.
        scripts: Of shells and interpreters.
        expansions: What the shell expands in other ways than by the value of a variable.
        unread: Why something of it was not read; empty where all was.
        room: Characters of texts for shells that may still be read.
    """

    runs: list[Run] = field(default_factory=list)
    scripts: list[Script] = field(default_factory=list)
    expansions: list[str] = field(default_factory=list)
    unread: str = ""
    room: int = MOST_CHARACTERS


def facts_of(command: str) -> Facts:
    """Tell what a command would do. Raises nothing."""
    facts = Facts()
    _read(command, facts, MOST_LEVELS)
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


def operands(arguments: Sequence[Word]) -> tuple[Word, ...]:
    """The arguments that are no options."""
    texts = [word.text for word in arguments]
    end = texts.index("--") if "--" in texts else len(texts)
    return tuple(word for word in arguments[:end] if word.text == "-" or word.text[:1] != "-") + tuple(
        arguments[end + 1 :]
    )


def _read(text: str, facts: Facts, levels: int) -> None:
    if not levels or facts.room < 0:
        facts.unread = "it has too many shells in shells to be read"
        return
    reading = read(text)
    facts.expansions += reading.expansions
    facts.unread = facts.unread or reading.unread
    for command in reading.commands:
        _run(command.words, command, None, facts, levels)


def _run(words: Sequence[Word], command: Command, origin: Run | None, facts: Facts, levels: int) -> None:
    """Note the program that words start, and those that it starts."""
    while words:
        run = Run(_name(words[0]), tuple(words[1:]), command.text, origin)
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
            words = (*words, Word("what xargs reads", known=False))


def _name(word: Word) -> str:
    return word.text.rpartition("/")[2] if word.known else ""


def _wrapped(run: Run) -> Sequence[Word]:
    """The words of the command that a program starts; none where it starts none."""
    arguments = run.arguments
    if arguments and (run.program, arguments[0].text) in RUNNERS:
        return _after_options(arguments[1:], _NO_OPTIONS)
    if run.program not in WRAPPERS or (run.program == "command" and options(arguments[:1]) & {"-v", "-V"}):
        return ()
    valued, operands_first = WRAPPERS[run.program]
    rest = _after_options(arguments, valued)
    if run.program in {"env", "sudo"}:
        while rest and _ASSIGNMENT.match(rest[0].text):
            rest = rest[1:]
    return rest[operands_first:]


def _after_options(arguments: Sequence[Word], valued: AbstractSet[str]) -> Sequence[Word]:
    at = 0
    while at < len(arguments) and arguments[at].text.startswith(("-", "+")):
        if arguments[at].text == "--":
            return arguments[at + 1 :]
        at += 2 if arguments[at].text in valued else 1
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
    for interpreter, source in _sources(run, command):
        facts.scripts.append(Script(interpreter, source, command.text))
        if interpreter == "sh":
            facts.room -= len(source)
            _read(source, facts, levels - 1)


def _sources(run: Run, command: Command) -> Iterator[tuple[str, str]]:
    arguments = run.arguments
    interpreter = _INTERPRETER.fullmatch(run.program)
    if run.program in SHELLS:
        yield from (("sh", text) for text in _of_shell(arguments, command))
    elif run.program == "eval":
        yield "sh", " ".join(word.text for word in arguments)
    elif run.program in {"su", "script", "flock"}:
        yield from (("sh", text) for text in _following(arguments, _COMMAND_TEXT))
    elif run.program == "env":
        yield from (("sh", text) for text in _following(arguments, _SPLIT_TEXT))
    elif interpreter:
        before = _before_operands(arguments)
        inline = list(_following(before, _INLINE[interpreter[1]]))
        from_stdin = not inline and all(word.text == "-" for word in operands(arguments))
        yield from ((interpreter[1], text) for text in (_stdin(command) if from_stdin else inline))


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


def _of_shell(arguments: Sequence[Word], command: Command) -> Iterator[str]:
    rest = _after_options(arguments, _SHELL_VALUES)
    given = arguments[: len(arguments) - len(rest)]
    if any(re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", word.text) for word in given):
        yield from (word.text for word in rest[:1])
    elif not rest or "-s" in options(given):
        yield from _stdin(command)


def _stdin(command: Command) -> Iterator[str]:
    """What a command reads, where its text tells."""
    source = command.source
    if command.stdin is not None:
        yield command.stdin
    elif source is not None and _name(source.words[0]) in {"echo", "printf"}:
        yield " ".join(word.text for word in operands(source.words[1:]))
    elif source is not None and _name(source.words[0]) == "cat" and source.stdin is not None:
        yield source.stdin
