"""Finds the programs that a command starts, whatever starts them: wrappers, other shells, ``find -exec``, ``xargs``.

Bounded as ``syntax`` is: so many levels of shells in shells, and so many programs in all.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from gloveport.policy.shell_text.directory import Directory
from gloveport.policy.shell_text.facts import Facts, ProgramRun, Script, ShellState, SimpleCommand
from gloveport.policy.shell_text.rulebook import rulebook
from gloveport.policy.shell_text.syntax import MOST_BYTES, read_commands
from gloveport.policy.shell_text.words import Word, after_options, operands, options

MOST_LEVELS: Final = 4
MOST_PROGRAMS: Final = 500
_QUOTES: Final = "'\""
_STDIN: Final = {"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}
_SHELL_VALUES = re.compile(r"[-+][A-Za-z]*[oO][A-Za-z]*|--rcfile|--init-file")
_INTERPRETER_VALUES: Final = frozenset({"-W", "-X", "-I", "-M", "-r", "--require", "--import", "-C"})
_SAME_SHELL: Final = {".", "eval", "source", "trap"}
"""What runs a text in the shell itself: a change of the directory there stays."""
_VERSION: Final = "0123456789."
"""At the end of the name of an interpreter."""
_CD_OPTION = re.compile(r"-[LPe@]+|--")
_ALIAS = re.compile(r"alias\.([^=]+)=(.*)", re.DOTALL | re.IGNORECASE)


def read_programs(command: str, directory: Directory, stdin: str | None = None) -> Facts:
    """Tell what a command would do, in a directory, with what it is given to read. Raises nothing."""
    reader = _ProgramReader()
    reader.read(command, ShellState(directory), stdin, MOST_LEVELS)
    for text, shell, levels in reader.traps:  # at the end, for variables may be set after a trap
        reader.read(text, shell, None, levels)
    return reader.facts


def split_git(arguments: Sequence[Word]) -> tuple[Sequence[Word], Sequence[Word]]:
    """Git's own options, and the name of its command with the arguments of that."""
    rest = after_options(arguments, rulebook().git_values)
    return arguments[: len(arguments) - len(rest)], rest


class _ProgramReader:
    def __init__(self) -> None:
        self.facts = Facts()
        self.traps: list[tuple[str, ShellState, int]] = []

    def read(self, text: str, shell: ShellState, stdin: str | None, levels: int) -> None:
        """Read a text for a shell."""
        if not levels or self.facts.room < 0:
            self.facts.unread = "it has too many shells in shells to be read"
            return
        read_commands(text, self.facts, shell, stdin, lambda each: self._start(each.words, each, None, shell, levels))

    def _start(
        self, words: Sequence[Word], command: SimpleCommand, origin: ProgramRun | None, shell: ShellState, levels: int
    ) -> None:
        """Note the program that words start, and those that it starts."""
        while words:
            if len(self.facts.runs) >= MOST_PROGRAMS:
                self.facts.unread = "it has too many commands to be read"
                return
            run = ProgramRun(_name(words[0]), tuple(words[1:]), command.text, shell.directory, origin)
            self.facts.runs.append(run)
            self._read_scripts(run, command, shell, levels)
            words = _wrapped_words(run)
            if run.program == "find":
                for executed in _executed_words(run.arguments) if levels else ():
                    self._start(executed, command, run, shell, levels - 1)
            elif run.program == "cd":
                target = next((word for word in run.arguments if not _CD_OPTION.fullmatch(word.text)), None)
                shell.directory = shell.directory.change(target)
            elif run.program == "xargs" and words:
                if source := command.source:
                    origin = ProgramRun(_name(source.words[0]), source.words[1:], source.text, shell.directory)
                words = (*words, *self._xargs_words(command))

    def _xargs_words(self, command: SimpleCommand) -> tuple[Word, ...]:
        """The operands that ``xargs`` appends, as far as they are known and there is room for them."""
        text, most = _stdin_of(command) or "", min(MOST_BYTES, self.facts.expandable)
        pieces = [piece.strip(_QUOTES) for piece in re.split(r"[\s\0]+", text[: most + 1]) if piece]
        if not pieces or len(text) > most:
            return (Word("what xargs reads", known=False),)
        self.facts.expandable -= len(text)
        return tuple(map(Word, pieces))

    def _read_scripts(self, run: ProgramRun, command: SimpleCommand, shell: ShellState, levels: int) -> None:
        """Note the texts that a program is given as programs, and read those for shells."""
        stdin = _stdin_of(command)
        for interpreter, source in _scripts(run, stdin):
            self.facts.scripts.append(Script(interpreter, source, command.text, shell.directory))
            if interpreter != "sh":
                continue
            self.facts.room -= min(len(source), MOST_BYTES)
            inner = shell if run.program in _SAME_SHELL else ShellState(shell.directory)
            if run.program == "trap":
                self.traps.append((source, ShellState(shell.directory, shell.variables), levels - 1))
            else:
                self.read(source, inner, None if source == stdin else stdin, levels - 1)


def _name(word: Word) -> str:
    return word.text.rpartition("/")[2] if word.known else ""


def _wrapped_words(run: ProgramRun) -> Sequence[Word]:
    """The words of the command that a program starts; none where it starts none."""
    arguments, launchers = run.arguments, rulebook().launchers
    if arguments and (runner := launchers.get(f"{run.program.rstrip(_VERSION)} {arguments[0].text}")):
        return after_options(arguments[1:], runner.values)
    launcher = launchers.get(run.program)
    if launcher is None or (run.program == "command" and options(arguments[:1]) & {"-v", "-V"}):
        return ()
    rest = after_options(arguments, launcher.values)
    if run.program in {"env", "sudo"}:
        rest = list(itertools.dropwhile(lambda word: re.match(r"\w+=", word.text), rest))
    return rest[launcher.operands :]


def _executed_words(arguments: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """What ``find`` executes."""
    rest = list(arguments)
    while starts := [at for at, word in enumerate(rest) if word.text in {"-exec", "-execdir", "-ok", "-okdir"}]:
        rest = rest[starts[0] + 1 :]
        end = next((at for at, word in enumerate(rest) if word.text in {";", "+"}), len(rest))
        yield [replace(word, known=False) if "{}" in word.text else word for word in rest[:end]]
        rest = rest[end:]


def _scripts(run: ProgramRun, stdin: str | None) -> Iterator[tuple[str, str]]:
    """The program texts that a program is given, each with its interpreter."""
    arguments, book = run.arguments, rulebook()
    if run.program in book.shells:
        yield from (("sh", text) for text in _shell_scripts(arguments, stdin))
    elif run.program == "eval":
        yield "sh", " ".join(word.text for word in arguments)
    elif run.program == "trap":
        yield from (("sh", word.text) for word in operands(arguments)[:1] if len(arguments) > 1 and word.text)
    elif run.program in {".", "source"}:
        yield from (("sh", stdin) for word in arguments[:1] if stdin and word.text in _STDIN)
    elif run.program == "git":
        yield from (("sh", text) for text in _git_scripts(arguments))
    elif run.program in book.script_options:
        yield from (("sh", text) for text in _following(arguments, book.script_options[run.program]))
    elif option := book.interpreters.get(name := run.program.rstrip(_VERSION)):
        rest = after_options(arguments, _INTERPRETER_VALUES)
        following = 2 if rest and rest[0].text == "eval" else 1  # Deno's option is a word
        inline = list(_following(arguments[: len(arguments) - len(rest) + following], option))
        if not inline and stdin and all(word.text in _STDIN for word in operands(arguments)):
            inline = [stdin]
        yield from ((name, text) for text in inline)


def _shell_scripts(arguments: Sequence[Word], stdin: str | None) -> Iterator[str]:
    """The text that a shell is given by ``-c``, or on its standard input."""
    rest = after_options(arguments, _SHELL_VALUES)
    given = arguments[: len(arguments) - len(rest)]
    if any(re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", word.text) for word in given):
        yield from (word.text for word in rest[:1])
    elif stdin and (not rest or rest[0].text in _STDIN or "-s" in options(given)):
        yield stdin


def _following(arguments: Sequence[Word], option: re.Pattern[str]) -> Iterator[str]:
    """What is attached to an option, or follows it."""
    for word, following in itertools.pairwise((*arguments, Word(""))):
        if found := option.fullmatch(word.text):
            yield found[1] or following.text
            return


def _git_scripts(arguments: Sequence[Word]) -> Iterator[str]:
    """The texts for shells that git is given: for each submodule, or as another name of itself."""
    own, command = split_git(arguments)
    texts = [word.text for word in command]
    if texts[:1] == ["submodule"] and "foreach" in texts:
        after = after_options(command[texts.index("foreach") + 1 :], frozenset())
        yield " ".join(word.text for word in after)
    for word in own:
        if (alias := _ALIAS.fullmatch(word.text)) and alias[1] == "".join(texts[:1]):
            yield alias[2][1:] if alias[2].startswith("!") else f"git {alias[2]}"


def _stdin_of(command: SimpleCommand) -> str | None:
    """What a command reads, where its text tells."""
    source = command.source
    if command.stdin is not None or source is None:
        return command.stdin
    program = _name(source.words[0])
    if program in {"echo", "printf"}:
        return " ".join(word.text for word in operands(source.words[1:]))
    return source.stdin if program in {"cat", "tee"} else None
