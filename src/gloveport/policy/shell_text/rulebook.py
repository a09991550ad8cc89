"""The rules for commands: the tables of ``rules.toml`` as types. That file explains the fields."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from gloveport.model.constraints import Constraints, Parser
from gloveport.model.reading import read_value
from gloveport.model.value import Value
from gloveport.model.workspace import Gate

Pattern: TypeAlias = Annotated[re.Pattern[str], Parser(re.compile)]
Options: TypeAlias = Annotated[frozenset[str], Parser(lambda text: frozenset(text.split()))]
Words: TypeAlias = Annotated[
    tuple[frozenset[str], ...], Parser(lambda text: tuple(frozenset(part.split("|")) for part in text.split()))
]
Lost: TypeAlias = Literal["operands", "last operand", "operands or all", "what find finds", "what leaves the workspace"]


class RuleError(ValueError):
    """A rule contradicts its examples."""


class Examples(Value):
    """Examples that a rule must match, and examples that it must not."""

    match: Annotated[tuple[str, ...], Constraints(min_length=1)]
    not_match: tuple[str, ...] = ()

    @property
    def examples(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.match, *self.not_match)

    def check(self, hits: Iterable[str]) -> None:
        """Raise ``RuleError`` unless exactly the examples of ``match`` come to the rule."""
        for example in set(hits) ^ set(self.match):
            raise RuleError(f"a rule is wrong about its example {example!r}")


class CommandRule(Examples):
    """A rule that brings a program, or a program text, to a gate."""

    gate: Gate
    command: Words = ()
    source: Pattern | None = None
    options: tuple[Options, ...] = ()
    unless: Options = frozenset()
    harmless: Pattern | None = None
    ignore: Pattern | None = None
    operand: Pattern | None = None
    lost: Lost | None = None
    lost_word: Pattern = re.compile("(.*)", re.DOTALL)
    hosts: Pattern | None = None
    hosts_in: Literal["arguments", "operands", "first operand"] = "first operand"
    anywhere: bool = False
    effect: str = ""


class Runner(Value):
    """A program that starts another one (after ``operands``), or reads a program text."""

    values: Pattern = re.compile("(?!)")
    operands: int | None = None
    text: Pattern | None = None
    anywhere: bool = False
    language: str = "sh"


class Rulebook(Value):
    """The whole file."""

    disposable: frozenset[str]
    generated: frozenset[str]
    generated_trees: frozenset[str]
    offline: frozenset[str]
    git_values: Pattern
    runners: Mapping[str, Runner]
    rules: tuple[CommandRule, ...]


@cache
def rulebook() -> Rulebook:
    """The content of the file, with examples not checked yet."""
    tables = tomllib.loads(Path(__file__).with_name("rules.toml").read_text("utf-8"))
    runners = {name: runner for names, runner in tables["runners"].items() for name in names.split("|")}
    return read_value(Rulebook, {**tables, "runners": runners})
