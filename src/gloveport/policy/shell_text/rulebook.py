"""The rules for commands and variables: the tables of ``rules.toml``, as types. What each field means is said there."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from gloveport.model.workspace import Gate


def _parse_options(text: str) -> Iterator[str]:
    """The options that a text lists, each with what GNU programs and git take for it."""
    for option in text.split():
        name, _, least = option.partition(":")
        yield from (name[:length] for length in range(int(least or len(name)), len(name) + 1))


Pattern: TypeAlias = re.Pattern[str]
Options: TypeAlias = Annotated[frozenset[str], BeforeValidator(_parse_options)]
Words: TypeAlias = Annotated[
    tuple[frozenset[str], ...], BeforeValidator(lambda text: [part.split("|") for part in text.split()])
]
Lost: TypeAlias = Literal[
    "operands", "last operand", "operands or all", "operands that are many", "of=", "pathspecs", "more than one file",
    "what find finds", "what leaves the workspace",
]  # fmt: skip
Hosts: TypeAlias = Literal["URLs", "first operand", "remote paths", "git's remote", "an index"]


class RuleError(ValueError):
    """A rule does not do what its examples say."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Examples(_Table):
    """What a rule is for, and what it must leave alone."""

    match: tuple[str, ...] = Field(min_length=1)
    not_match: tuple[str, ...] = ()

    @property
    def examples(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.match, *self.not_match)

    def check(self, hits: Iterable[str]) -> None:
        """Raise ``RuleError`` where the examples that come to the rule are not those that should."""
        for example in set(hits) ^ set(self.match):
            raise RuleError(f"a rule in rules.toml is wrong about its example {example!r}")


class CommandRule(Examples):
    """What brings a program, or a program text, to a gate."""

    gate: Gate
    command: Words = ()
    source: Pattern | None = None
    options: tuple[Options, ...] = ()
    unless: Options = frozenset()
    local: Pattern | None = None
    operand: Pattern | None = None
    ignore: Pattern | None = None
    lost: Lost | None = None
    hosts: Hosts | None = None
    anywhere: bool = False
    effect: str = ""


class VariableRule(Examples):
    """What brings a variable to its gate."""

    names: tuple[str, ...]
    value: Pattern = re.compile("")
    reason: Literal["sandbox", "programs"]


class SecretRule(Examples):
    """What a secret looks like."""

    kind: str
    value: Pattern


class SecretNames(Examples):
    """Names of secrets, and values that are none."""

    name: Pattern
    plain_value: Pattern


class LauncherRule(_Table):
    """A program that starts another."""

    values: frozenset[str] = frozenset()
    operands: int = 0


class Rulebook(_Table):
    """The whole file."""

    disposable: frozenset[str]
    generated: frozenset[str]
    generated_trees: frozenset[str]
    shells: frozenset[str]
    git_values: frozenset[str]
    offline: frozenset[str]
    interpreters: dict[str, Pattern]
    script_options: dict[str, Pattern]
    launchers: dict[str, LauncherRule]
    rules: tuple[CommandRule, ...]
    variables: tuple[VariableRule, ...]
    secrets: tuple[SecretRule, ...]
    secret_names: SecretNames


@cache
def rulebook() -> Rulebook:
    """What the file holds; its examples are not checked yet."""
    return Rulebook.model_validate(tomllib.loads(Path(__file__).with_name("rules.toml").read_text("utf-8")))
