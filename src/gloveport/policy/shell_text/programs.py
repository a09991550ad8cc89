"""Finds the programs and program texts that a program of a command starts in turn."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, dropwhile, pairwise, takewhile
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gloveport.policy.shell_text.directory import Directory
from gloveport.policy.shell_text.rulebook import Runner, rulebook
from gloveport.policy.shell_text.words import Word, after_options, options

_STDIN: Final = {"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}
_INFORMS: Final = {"--version", "-V", "-v", "--help", "-h"}
_FIND_STARTS: Final = {"-exec", "-execdir", "-ok", "-okdir"}
_FIND_NAMES: Final = {"-name", "-iname", "-path", "-wholename"}


class ProgramRun(Struct, frozen=True):
    """A program that is started, or a program text for an interpreter.

    Attributes:
        program: Its name; empty if unknown. For a program text, the interpreter's.
        arguments: Its arguments; empty for a program text.
        text: The command that it is part of.
        directory: Where it runs.
        source: The program text; None for a program.
    """

    program: str
    arguments: tuple[Word, ...]
    text: str
    directory: Directory
    source: str | None = None


def find_runner(run: ProgramRun) -> tuple[tuple[Word, ...], Runner | None]:
    """The rule for a program that starts others or reads program texts, and the arguments that it applies to."""
    name, runners = run.program.rstrip("0123456789.") or run.program, rulebook().runners
    if run.arguments and (runner := runners.get(f"{name} {run.arguments[0].text}")):
        return run.arguments[1:], runner
    return run.arguments, runners.get(name)


def inline_text(run: ProgramRun, arguments: Sequence[Word], runner: Runner | None) -> str | None:
    """The program text in a program's arguments: attached to an option, or after it; None where there is none."""
    if run.program == "eval":
        return " ".join(word.text for word in arguments)
    if runner is None or runner.text is None:
        return None
    behind = 0 if runner.anywhere else len(after_options(arguments, runner.values))
    for at, word in enumerate(arguments[: len(arguments) - behind]):
        if found := runner.text.fullmatch(word.text):
            following = after_options(arguments[at + (word.text[0] != "-") :], runner.values)
            return found[1] or next((word.text for word in following), "")
    return None


def reads_stdin(arguments: Sequence[Word], runner: Runner) -> bool:
    """Whether an interpreter reads its program text from standard input."""
    rest, texts = after_options(arguments, runner.values), {word.text for word in arguments}
    return runner.operands is None and not texts & _INFORMS and (not rest or rest[0].text in _STDIN or "-s" in texts)


def started_words(
    run: ProgramRun, arguments: Sequence[Word], runner: Runner | None, read: Sequence[Word]
) -> Iterator[Sequence[Word]]:
    """The words of the commands that a program starts. ``read``: words that stand for the input of ``xargs``."""
    found = find_results(run) if run.program == "find" else ()
    for start in [at + 1 for at, word in enumerate(arguments) if found and word.text in _FIND_STARTS]:
        words = takewhile(lambda word: word.text not in {";", "+"}, arguments[start:])
        parts = (found if word.text == "{}" else (_mark_found(word),) for word in words)
        yield list(chain.from_iterable(parts))
    if runner and runner.operands is not None and not (run.program == "command" and options(arguments[:1]) & _INFORMS):
        rest = dropwhile(lambda word: re.match(r"\w+=", word.text), after_options(arguments, runner.values))
        yield [*rest, *(read if run.program == "xargs" else ())][runner.operands :]


def _mark_found(word: Word) -> Word:
    return Word(word.text.replace("{}", "…"), known=False) if "{}" in word.text else word


def find_results(run: ProgramRun) -> Sequence[Word]:
    """Words for the results of ``find``: the names that it looks for, if tools remake them all, or its starts."""
    texts = [word.text for word in run.arguments]
    names = [following for option, following in pairwise(texts) if option in _FIND_NAMES]
    if names and not {"!", "-not"} & set(texts) and all(run.directory.is_disposable(name) for name in names):
        return [Word(f"…/{name}", known=False) for name in names]
    starts = tuple(takewhile(lambda word: word.text[:1] not in {"-", "(", "!"}, run.arguments)) or (Word("."),)
    return [replace(start, text=f"{start.text}/…") for start in starts]
