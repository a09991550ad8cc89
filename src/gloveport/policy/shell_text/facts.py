"""What the text of a command tells: the commands in it, and the programs and program texts that those start."""

from dataclasses import dataclass, field

from gloveport.policy.shell_text.directory import Directory
from gloveport.policy.shell_text.words import Word

MOST_CHARACTERS = 4096
"""Of all shells' texts together, the outermost aside: of each the grammar may take long."""
MOST_EXPANDED = 8192


@dataclass(slots=True)
class ShellState:
    """What one shell has changed so far: its directory, and the variables that its text sets."""

    directory: Directory
    variables: dict[str, tuple[Word, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One simple command.

    Attributes:
        words: Its name and its arguments; never empty.
        text: What is written.
        stdin: What it reads, as far as it is known; None where it is not.
        source: The command whose output it reads.
    """

    words: tuple[Word, ...]
    text: str
    stdin: str | None = None
    source: "SimpleCommand | None" = None


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """One program that is started.

    Attributes:
        program: Its name, without directories.
        arguments: Without its name.
        text: What is written, wrappers and all.
        directory: Where it runs.
        origin: What finds the arguments that the text does not tell: ``find``, or the program that ``xargs`` reads.
    """

    program: str
    arguments: tuple[Word, ...]
    text: str
    directory: Directory
    origin: "ProgramRun | None" = None


@dataclass(frozen=True, slots=True)
class Script:
    """A program text that is given in a command, to ``python``, ``perl``, ``sh``, …"""

    interpreter: str
    source: str
    text: str
    """The command that it stands in."""
    directory: Directory


@dataclass(slots=True)
class Facts:
    """What a command would do, as far as its text tells.

    Attributes:
        runs: In the order in which they are written, those of substitutions before the one they stand in.
        scripts: Of shells and interpreters.
        expansions: Substitutions, and expansions of variables that are more than their value.
        unread: Why something of it was not read; empty where all was.
        room: Characters of texts for shells that may still be read.
        expandable: Characters that variables may still stand for.
    """

    runs: list[ProgramRun] = field(default_factory=list)
    scripts: list[Script] = field(default_factory=list)
    expansions: list[str] = field(default_factory=list)
    unread: str = ""
    room: int = MOST_CHARACTERS
    expandable: int = MOST_EXPANDED
