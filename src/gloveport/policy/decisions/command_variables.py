"""Finds the caller's variables that come to the gate ``sensitive_env``.

A command starts in an environment that the sandbox makes; the caller's variables are added at the last exec, to the
shell that runs the command, so no program of ours ever starts with them. They can do nothing that a command could not
do as well (``LD_PRELOAD=x make`` is a command). They come to the gate for three reasons only:

- They make the shell, the loader or a program run something that the command does not say: then a program runs that no
  gate has explained and no person has approved.
- The sandbox has set them: another HOME, cache, proxy or certificate breaks the caches and outbound HTTP of commands.
- Their value looks like a secret, which a program of the workspace could save.

PYTHONPATH, NODE_OPTIONS for memory, GIT_AUTHOR_NAME and the like are in daily use, and pass.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal

from gloveport.model.reading import read_value
from gloveport.model.value import Value
from gloveport.policy.shell_text.rulebook import Examples, Pattern
from gloveport.policy.wildcards import matches
from gloveport.policy.wording import quote_sent

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_SEARCHED: Final = 65_536
_LONGEST_NAME: Final = 256
_MOST_CHARACTERS: Final = 131_072
"""The limit of all values together: each is searched for several kinds of secrets."""


class VariableRule(Examples):
    """A rule that brings a variable to its gate."""

    names: tuple[str, ...]
    value: Pattern = re.compile("")
    reason: Literal["sandbox", "programs"]


class SecretRule(Examples):
    """The pattern of a kind of secret."""

    kind: str
    value: Pattern


class SecretNames(Examples):
    """Names of secrets, and values that are not secret."""

    name: Pattern
    plain_value: Pattern


class VariableRules(Value):
    """The tables of ``variables.toml``, which explains the fields."""

    variables: tuple[VariableRule, ...]
    secrets: tuple[SecretRule, ...]
    secret_names: SecretNames


def refused_variables(env: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """The caller's variables that come to the gate: the name, why, and what to do instead. Never a value."""
    room = _MOST_CHARACTERS
    for name in sorted(env):
        value = env[name]
        if (room := room - len(value)) < 0:
            why = f"The variables together hold more than {_MOST_CHARACTERS} characters."
            yield name, why, "Put the values into files, and name those."
            return
        if len(name) > _LONGEST_NAME:
            yield name, f"{quote_sent(name)} is too long for a name of a variable.", "Use a shorter name."
        elif secret := find_secret(name, value):
            why = f"The variable {quote_sent(name)} holds what looks like {secret}."
            instead = "Let the owner configure it as a credential: requests then carry it, and no program sees it."
            yield name, why, instead
        elif not _NAME.fullmatch(name):
            yield name, f"{quote_sent(name)} is no name of a variable.", "Use letters, digits and underscores."
        elif (rule := _find_rule(_rules(), name, value)) and rule.reason == "sandbox":
            instead = f"Leave {name} as it is, or set it in the command: {name}=value program."
            yield name, f"The sandbox sets {name} itself, and caches and the network depend on it.", instead
        elif rule:
            why = f"The variable {name} makes programs run something that the command does not say."
            yield name, why, "Say it in the command instead."


def is_plain(name: str, value: str) -> bool:
    """Whether a variable comes to no gate, and its name is not that of a secret."""
    return not _rules().secret_names.name.fullmatch(name) and not any(refused_variables({name: value}))


def find_secret(name: str, value: str) -> str:
    """The kind of secret that a variable looks like; empty if it looks like none."""
    return _find_secret(_rules(), name, value)


def _find_rule(book: VariableRules, name: str, value: str) -> VariableRule | None:
    compared = name.lower() if name.lower().startswith("npm_config_") else name
    rules = (rule for rule in book.variables if any(matches(pattern, compared) for pattern in rule.names))
    rule = next(rules, None)  # the first that names it decides
    return rule if rule and rule.value.search(value) else None


def _find_secret(book: VariableRules, name: str, value: str) -> str:
    kinds = (rule.kind for rule in book.secrets if rule.value.search(value, 0, _MOST_SEARCHED))
    named = name not in {"PWD", "OLDPWD"} and book.secret_names.name.fullmatch(name)
    return next(kinds, "a secret" if named and not book.secret_names.plain_value.fullmatch(value[:256]) else "")


@cache
def _rules() -> VariableRules:
    """The rules for variables. Raises ``RuleError`` where one of them contradicts its examples."""
    book = read_value(VariableRules, tomllib.loads(Path(__file__).with_name("variables.toml").read_text("utf-8")))
    for rule in book.variables:
        rule.check(each for each in rule.examples if _find_rule(book, *each.split("=", 1)) is rule)
    for kind in book.secrets:
        kind.check(each for each in kind.examples if _find_secret(book, "", each) == kind.kind)
    names = book.secret_names
    names.check(each for each in names.examples if _find_secret(book, *each.split("=", 1)) == "a secret")
    return book
