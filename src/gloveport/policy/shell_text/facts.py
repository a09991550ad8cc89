"""What the text of a command tells: the programs and program texts in it, and which texts were not read."""

from dataclasses import dataclass, field

from gloveport.policy.shell_text.directory import Directory
from gloveport.policy.shell_text.words import Word

MOST_ROOM = 32_768
"""Characters of words and of nested texts, and parts of syntax, that are read of one command."""


@dataclass(slots=True)
class ShellState:
    """What one shell has changed so far: its directory, and its variables; None for one that is not one plain word."""

    directory: Directory
    variables: dict[str, Word | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A simple command; ``fed``: it reads what the text or the caller gives; ``source``: what writes its input."""

    words: tuple[Word, ...]
    text: str
    fed: bool = False
    source: "SimpleCommand | None" = None


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """A program that is started; ``origin``: what finds arguments that the text does not tell, as ``find`` does."""

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
    directory: Directory


@dataclass(slots=True)
class Facts:
    """What a command would do, as far as its text tells.

    Attributes:
        runs: In the order in which they are written, those of substitutions before the one they stand in.
        scripts: Of shells and interpreters.
        expansions: Substitutions, and expansions of variables that are more than their value.
        unread: Why something of it was not read; empty where all was.
        scanned: Texts that are not read as commands, in which words are looked for.
        room: What may still be read.
    """

    runs: list[ProgramRun] = field(default_factory=list)
    scripts: list[Script] = field(default_factory=list)
    expansions: list[str] = field(default_factory=list)
    unread: str = ""
    scanned: list[str] = field(default_factory=list)
    room: int = MOST_ROOM

    def take_room(self, amount: int) -> bool:
        """Whether there is room to read so much more."""
        self.room -= amount
        return self.room >= 0

    def skip(self, why: str, text: str) -> None:
        """Note that a text is not read, so that words are looked for in it."""
        self.unread = self.unread or why
        if text not in self.scanned:
            self.scanned.append(text)
