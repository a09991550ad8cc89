"""Finds rules for a server's tools that never decide, since the first rule that matches a call does.

Only certain cases are faults: a rule counts as covered if a single earlier rule matches all of its calls.
"""

import math
from collections.abc import Iterator
from typing import Final

from gloveport.config.schema import KeyPath
from gloveport.config.sources.layers import Table, walk
from gloveport.config.validation.faults import Fault
from gloveport.config.validation.sound_parts import sound_elements
from gloveport.model.hub import Condition, Server, ToolRule
from gloveport.model.json_value import JsonValue
from gloveport.model.value import fields_of
from gloveport.policy.decisions.conditions import expression
from gloveport.policy.wildcards import matches

_STRICTNESS: Final = ("allow", "ask", "deny")


def tool_rule_faults(base: KeyPath, table: Table) -> Iterator[Fault]:
    """Name the meaningless conditions of a server's table, which may have values of wrong types, and its rules that
    never decide.
    """
    rules: dict[int, ToolRule] = sound_elements(Server, table, "rules")
    for index, rule in rules.items():
        key = (*base, "rules", index)
        for name, condition in rule.arguments.items():
            yield from _condition_faults((*key, "arguments", name), condition)
        if rule.read_only and rule.destructive:
            yield Fault(
                keys=(key,),
                problem="can never match: what only reads does not destroy",
                hint="remove read_only or destructive",
            )
        earlier = next((before for before, other in rules.items() if before < index and _covers(other, rule)), None)
        if earlier is not None:
            yield Fault(
                keys=(key,),
                problem=f"can never match: rules[{earlier}] matches all that it speaks of",
                hint="the first rule that matches decides: put the narrower rule first, or remove it",
            )


def _condition_faults(key: KeyPath, condition: Condition) -> Iterator[Fault]:
    names = [name for name, value in condition.items() if value != fields_of(Condition)[name].default]
    if len(names) != 1:
        yield Fault(
            keys=(key,),
            problem=f"expected one condition, found {' and '.join(names) or 'none'}",
            hint=f"say exactly one of: {', '.join(fields_of(Condition))}",
        )
    for name in ("equals", "one_of"):
        if not _is_json(getattr(condition, name)):
            yield Fault(
                keys=((*key, name),),
                problem="expected a value that JSON has, found a number that is infinite or none",
                hint="no argument can ever be that: write a finite number",
            )
    if condition.pattern and expression(condition.pattern) is None:
        yield Fault(
            keys=((*key, "pattern"),),
            problem="expected a regular expression without look-around and back references, of moderate size",
            hint="see https://docs.rs/regex/latest/regex/#syntax; write it in single quotes, for its backslashes",
        )


def _is_json(value: JsonValue | tuple[JsonValue, ...]) -> bool:
    inner = [*value] if isinstance(value, tuple) else [value]
    return all(not isinstance(found, float) or math.isfinite(found) for _, found in walk(inner))


def _covers(one: ToolRule, other: ToolRule) -> bool:
    """Tell whether an earlier rule certainly decides wherever a later one would."""
    # To the earlier pattern the later one's star is just a character, which only a star matches.
    tools = not one.tools or (
        bool(other.tools) and all(any(matches(wide, narrow) for wide in one.tools) for narrow in other.tools)
    )
    # A tool that only reads does not destroy, and a destructive one does not only read.
    reading = one.read_only in {None, other.read_only} or (one.read_only is False and other.destructive is True)
    destroying = one.destructive in {None, other.destructive} or (one.destructive is False and other.read_only is True)
    # If an argument is in doubt, the stricter rule matches a call and the other does not.
    stricter = _STRICTNESS.index(one.action) >= _STRICTNESS.index(other.action)
    arguments = not one.arguments or (stricter and _render_conditions(one).items() <= _render_conditions(other).items())
    return tools and reading and destroying and arguments


def _render_conditions(rule: ToolRule) -> dict[str, str]:
    """Each condition as text, since Python takes 1 for equal to true."""
    return {name: condition.model_dump_json() for name, condition in rule.arguments.items()}
