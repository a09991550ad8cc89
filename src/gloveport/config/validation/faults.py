"""Describes validation faults: wrong keys and values.

A value is not shown if a secret is expected near it: a secret that a person has put into the configuration by mistake
must not get into a log.
"""

from collections.abc import Iterator
from datetime import date, time
from itertools import chain
from typing import Any, TypeVar

from msgspec import Struct

from gloveport.config.schema import KeyPath
from gloveport.config.sources.layers import Table
from gloveport.config.toml_text import as_toml, nature, spell_key
from gloveport.config.validation.misplaced_secrets import misplaced_hint
from gloveport.config.validation.type_descriptions import describe, is_private, is_secret
from gloveport.late_libraries import difflib
from gloveport.model import Value
from gloveport.model.constraints import Shape
from gloveport.model.reading import ReadFault, WrongShapeError, read_value
from gloveport.model.type_shapes import below, is_of_tables, words

_M = TypeVar("_M", bound=Value)


class Fault(Struct, frozen=True, kw_only=True):
    """One thing that is wrong with the configuration.

    Attributes:
        keys: The keys that disagree; the first that a file sets is the one to correct.
        problem: What was expected and what was found.
        hint: What to write instead.
    """

    keys: tuple[KeyPath, ...]
    problem: str
    hint: str


def validate(model: type[_M], data: Table) -> tuple[_M | None, list[Fault]]:
    """Validate the data of files: returns the values, or a fault for every wrong key and value."""
    try:
        return read_value(model, _without_dates(data)), []
    except WrongShapeError as error:
        return None, [_fault(model, data, fault) for fault in error.faults]


def _without_dates(data: Any) -> Any:  # noqa: ANN401 - TOML data of any shape
    """Convert TOML data to JSON's types: a date becomes a string, which no key accepts."""
    match data:
        case dict():
            return {name: _without_dates(value) for name, value in data.items()}
        case list():
            return [*map(_without_dates, data)]
        case date() | time():
            return str(data)
        case _:
            return data


def _fault(model: type[Value], data: Table, fault: ReadFault) -> Fault:
    key, described = fault.path, describe(fault.shape)
    match fault.kind:
        case "unknown":
            return _unknown_key(model, key, fault.shape)
        case "name":
            return Fault(keys=(key,), problem=f"expected {described.expected}", hint=described.hint)
        case "missing":
            return Fault(keys=(key,), problem=f"missing; expected {described.expected}", hint=described.hint)
        case "value":
            found = _value_at(data, key)
            found_text = nature(found) if is_private(fault.shape) else as_toml(found)
            hint = _guess_meaning(key, fault.shape, found) or described.hint
            return Fault(keys=(key,), problem=f"expected {described.expected}, found {found_text}", hint=hint)


def _guess_meaning(key: KeyPath, shape: Shape, found: object) -> str | None:
    """Guess what a wrong value was meant to be."""
    if is_secret(shape) and isinstance(found, str):
        return misplaced_hint(found)
    if is_of_tables(shape.form) and isinstance(found, dict):
        own = f"; in a file of its own [[{spell_key(key[2:])}]]" if key[0] == "api" else ""
        return f"write [[{spell_key(key)}]], with two brackets{own}"
    near = difflib.get_close_matches(str(found).lower()[:80], words(shape.form), n=1)
    return f'did you mean "{near[0]}"?' if near else None


def _value_at(data: Any, key: KeyPath) -> object:  # noqa: ANN401 - TOML data of any shape
    for part in key:
        data = data[part]
    return data


def _unknown_key(model: type[Value], key: KeyPath, shape: Shape) -> Fault:
    *around, name = key
    table = tuple(around)
    siblings = [str(sibling) for sibling, _ in below(shape.form)]
    in_array = any(isinstance(part, int) for part in table)  # then each element has keys of its own
    elsewhere = chain(_keys(shape, table), () if in_array else _keys(Shape(model)))
    if near := difflib.get_close_matches(str(name)[:80], siblings, n=1):
        hint = f"did you mean {spell_key((*table, near[0]))}?"
    elif other := next((path for path in elsewhere if path[-1] == name), None):
        hint = f"did you mean {spell_key(other)}?"
    else:
        hint = f"the keys here are: {', '.join(siblings)}"
    return Fault(keys=((*table, name),), problem="unknown key", hint=hint)


def _keys(shape: Shape, base: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield every key below a type, with examples for freely chosen names of tables and keys."""
    for name, inner in below(shape.form):
        yield (*base, name)
        yield from _keys(inner, (*base, name))
