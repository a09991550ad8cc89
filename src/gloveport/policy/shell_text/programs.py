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
_STDIN: Final = {"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}
_SHELL_VALUES = re.compile(r"[-+][A-Za-z]*[oO][A-Za-z]*|--rcfile|--init-file")
_INTERPRETER_VALUES: Final = frozenset({"-W", "-X", "-I", "-M", "-r", "--require", "--import", "-C"})
_INFORMS: Final = {"--version", "-V", "-v", "--help", "-h"}
_SAME_SHELL: Final = {"eval", "trap"}
"""What runs a text in the shell itself: a change of the directory there stays."""
_VERSION: Final = "0123456789."
"""At the end of the name of an interpreter."""
_CD_OPTION = re.compile(r"-[LPe@]+|--")


def read_programs(command: str, directory: Directory, stdin: str = "") -> Facts:
    """Tell what a command would do, in a directory, with what it is given to read. Raises nothing."""
    reader = _ProgramReader(f"{command}\n{stdin}")
    reader.read(command, ShellState(directory), MOST_LEVELS, fed=bool(stdin))
    for text, shell, levels in reader.traps:  # at the end, for variables may be set after a trap
        reader.read(text, shell, levels)
    return reader.facts


def split_git(arguments: Sequence[Word]) -> tuple[Sequence[Word], Sequence[Word]]:
    """Git's own options, and the name of its command with the arguments of that."""
    rest = after_options(arguments, rulebook().git_values)
    return arguments[: len(arguments) - len(rest)], rest


class _ProgramReader:
    def __init__(self, whole: str) -> None:
        self.whole, self.facts = whole, Facts()
        self.traps: list[tuple[str, ShellState, int]] = []

    def read(self, text: str, shell: ShellState, levels: int, *, fed: bool = False) -> None:
        """Read a text for a shell."""
        if not levels or not self.facts.take_room(min(len(text), MOST_BYTES)):
            self.facts.skip("it has too many shells in shells to be read", f"{self.whole}\n{text}")
            return
        on_command = lambda each: self._start(each.words, each, None, shell, levels)  # noqa: E731
        read_commands(text, self.facts, shell, on_command, fed=fed)

    def _start(
        self, words: Sequence[Word], command: SimpleCommand, origin: ProgramRun | None, shell: ShellState, levels: int
    ) -> None:
        """Note the program that words start, and those that it starts."""
        while words:
            if len(self.facts.runs) >= MOST_PROGRAMS:
                self.facts.skip("it has too many commands to be read", self.whole)
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
                words = (*words, Word("what xargs reads", known=False))
                if source := command.source:
                    origin = ProgramRun(_name(source.words[0]), source.words[1:], source.text, shell.directory)
                if command.fed and (not origin or origin.program in {"echo", "printf", "cat", "tee"}):
                    self.facts.skip("xargs puts commands together", self.whole)

    def _read_scripts(self, run: ProgramRun, command: SimpleCommand, shell: ShellState, levels: int) -> None:
        """Note the texts that a program is given as programs, and read those for shells."""
        texts = list(_scripts(run))
        if not texts and command.fed and (interpreter := _reader_of_stdin(run)):
            bare = self.whole.replace("\\", "")
            self.facts.scripts.append(Script(interpreter, f"{self.whole}\n{bare}", command.text, shell.directory))
            if interpreter == "sh":
                self.facts.skip("a shell reads what it is given", self.whole)
        for interpreter, source in texts:
            self.facts.scripts.append(Script(interpreter, source, command.text, shell.directory))
            if interpreter == "sh" and run.program == "trap":
                self.traps.append((source, ShellState(shell.directory, shell.variables), levels - 1))
            elif interpreter == "sh":
                inner = shell if run.program in _SAME_SHELL else ShellState(shell.directory)
                self.read(source, inner, levels - 1, fed=command.fed)
        if run.program == "git" and any(
            word.text.lower().startswith("alias.") or word.text == "foreach" for word in run.arguments
        ):
            self.facts.skip("git is given a command of its own", self.whole)


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


def _scripts(run: ProgramRun) -> Iterator[tuple[str, str]]:
    """The program texts in the arguments of a program, each with its interpreter."""
    arguments, book = run.arguments, rulebook()
    if run.program in book.shells:
        rest = after_options(arguments, _SHELL_VALUES)
        given = arguments[: len(arguments) - len(rest)]
        if any(re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", word.text) for word in given):
            yield from (("sh", word.text) for word in rest[:1])
    elif run.program == "eval":
        yield "sh", " ".join(word.text for word in arguments)
    elif run.program == "trap":
        yield from (("sh", word.text) for word in operands(arguments)[:1] if len(arguments) > 1 and word.text)
    elif run.program in book.script_options:
        yield from (("sh", text) for text in _following(arguments, book.script_options[run.program]))
    elif option := book.interpreters.get(name := run.program.rstrip(_VERSION)):
        rest = after_options(arguments, _INTERPRETER_VALUES)
        following = 2 if rest and rest[0].text == "eval" else 1  # Deno's option is a word
        inline = _following(arguments[: len(arguments) - len(rest) + following], option)
        yield from ((name, text) for text in inline)


def _reader_of_stdin(run: ProgramRun) -> str:
    """The interpreter that reads a program from its standard input; empty where none does."""
    given, book = run.arguments, rulebook()
    if run.program in {".", "source"}:
        return "sh" if given and given[0].text in _STDIN else ""
    if options(given) & _INFORMS and not options(given) & {"-s"}:
        return ""
    if run.program in book.shells:
        rest = after_options(given, _SHELL_VALUES)
        return "sh" if not rest or rest[0].text in _STDIN or "-s" in options(given) else ""
    name = run.program.rstrip(_VERSION)
    return name if name in book.interpreters and all(word.text in _STDIN for word in operands(given)) else ""


def _following(arguments: Sequence[Word], option: re.Pattern[str]) -> Iterator[str]:
    """What is attached to an option, or follows it."""
    for word, following in itertools.pairwise((*arguments, Word(""))):
        if found := option.fullmatch(word.text):
            yield found[1] or following.text
            return
