"""The commands of a text, and their words, as ``policy.shell`` reads them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """Where a change of the directory ends: a subshell, a branch, a program of another shell."""

    outer: "Scope | None" = None


@dataclass(frozen=True, slots=True)
class Word:
    """One word.

    Attributes:
        text: Without its quoting; of what is not known, what is written.
        known: Whether it says all: nothing of it depends on what a program does.
        glob: Whether it stands for the names of files.
    """

    text: str
    known: bool = True
    glob: bool = False


Variables: TypeAlias = Mapping[str, tuple[Word, ...]]
"""What variables stand for."""


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command.

    Attributes:
        words: Its name and its arguments; never empty.
        text: What is written.
        stdin: What it reads, as far as it is known; None where it is not.
        source: The command whose output it reads.
        scope: What it stands in.
        variables: Those that its text sets, those after it too.
    """

    words: tuple[Word, ...]
    text: str
    stdin: str | None = None
    source: "Command | None" = None
    scope: Scope = field(default_factory=Scope, compare=False)
    variables: Variables = field(default_factory=dict, compare=False, repr=False)
