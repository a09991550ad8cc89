"""Describes validation faults: wrong keys and values. Of pydantic's text nothing gets out, only where it stumbled.

A value is not shown where a secret is expected near it: who writes the secret itself into the configuration must not
find it in a log.
"""

import difflib
import json
from collections.abc import Iterator
from itertools import chain
from typing import Any, TypeVar, get_args

from msgspec import Struct
from pydantic import TypeAdapter, ValidationError

from gloveport.config.schema import Config, KeyPath
from gloveport.config.sources.layers import Table
from gloveport.config.toml_text import as_toml, nature, spell_key
from gloveport.config.validation.key_types import Shape, below, element, is_of_tables, members, shape_of, words
from gloveport.config.validation.misplaced_secrets import misplaced_hint
from gloveport.config.validation.type_descriptions import choice, describe, is_private, is_secret
from gloveport.model import Value

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
    """Validate the data of files: the values, or every key and value that has the wrong shape."""
    try:
        # By way of JSON, the one strict mode in which an array is good for a tuple or a set and a string for a path,
        # while "5" is no number and 1 is not true. A date becomes a string, which no key takes in that form.
        return model.model_validate_json(json.dumps(data, default=str), strict=True), []
    except ValidationError as error:
        return None, [_fault(model, data, location, kind) for location, kind in _innermost(error)]


def validate_config(data: Table) -> tuple[Config | None, list[Fault]]:
    """The same for a whole configuration, table by table: what no file says is the default, and takes no time."""
    values: dict[str, Any] = {}
    faults: list[Fault] = []
    for name, annotation in Config.__annotations__.items():
        if name not in data:
            continue
        try:
            values[name] = TypeAdapter(annotation).validate_json(json.dumps(data[name], default=str), strict=True)
        except ValidationError as error:
            faults += [_fault(Config, data, (name, *location), kind) for location, kind in _innermost(error)]
    faults += [_unknown_key(Config, (name,)) for name in data if name not in Config.model_fields]
    return (None if faults else Config.model_construct(**values)), faults


def _innermost(error: ValidationError) -> list[tuple[KeyPath, str]]:
    """Where and how: of an array whose elements are all wrong pydantic says as well that it is empty."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    around = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
    return [(detail["loc"], detail["type"]) for detail in details if detail["loc"] not in around]


def _fault(model: type[Value], data: Table, location: KeyPath, error: str) -> Fault:
    if error == "extra_forbidden":
        return _unknown_key(model, location)
    if location[-1] == "[key]":
        key, mapping = _at(model, location[:-2])
        described = describe(shape_of(get_args(mapping.form)[0]))
        return Fault(keys=((*key, location[-2]),), problem=f"expected {described.expected}", hint=described.hint)
    key, shape = _at(model, location)
    if error.startswith("union_tag_"):  # the word that chooses what the table has to have
        key, shape = (*key, "kind"), choice(members(shape.form))
    described = describe(shape)
    if error in {"missing", "union_tag_not_found"}:
        return Fault(keys=(key,), problem=f"missing; expected {described.expected}", hint=described.hint)
    found = _value_at(data, key)
    return Fault(
        keys=(key,),
        problem=f"expected {described.expected}, found {nature(found) if is_private(shape) else as_toml(found)}",
        hint=_guess_meaning(key, shape, found) or described.hint,
    )


def _guess_meaning(key: KeyPath, shape: Shape, found: object) -> str | None:
    """Guess from a wrong value what it should be."""
    if is_secret(shape) and isinstance(found, str):
        return misplaced_hint(found)
    if is_of_tables(shape.form) and isinstance(found, dict):
        own = f"; in a file of its own [[{spell_key(key[2:])}]]" if key[0] == "api" else ""
        return f"write [[{spell_key(key)}]], with two brackets{own}"
    near = difflib.get_close_matches(str(found).lower()[:80], words(shape.form), n=1)
    return f'did you mean "{near[0]}"?' if near else None


def _at(model: type[Value], location: KeyPath) -> tuple[KeyPath, Shape]:
    """Give the key, and the type, that pydantic's location means: that also names the chosen member of a union."""
    key: KeyPath = ()
    shape = Shape(model)
    for part in location:
        if tables := members(shape.form):
            shape = Shape(tables[str(part)])
            continue
        key = (*key, part)
        shape = element(shape.form) or dict(below(shape.form))[part]
    return key, shape


def _value_at(data: Any, key: KeyPath) -> object:  # noqa: ANN401 - TOML data of any shape
    for part in key:
        data = data[part]
    return data


def _unknown_key(model: type[Value], location: KeyPath) -> Fault:
    *around, name = location
    table, shape = _at(model, tuple(around))
    siblings = [str(sibling) for sibling, _ in below(shape.form)]
    in_array = any(isinstance(part, int) for part in table)  # its elements have their keys to themselves
    elsewhere = chain(_keys(shape, table), () if in_array else _keys(Shape(model)))
    if near := difflib.get_close_matches(str(name)[:80], siblings, n=1):
        hint = f"did you mean {spell_key((*table, near[0]))}?"
    elif other := next((path for path in elsewhere if path[-1] == name), None):
        hint = f"did you mean {spell_key(other)}?"
    else:
        hint = f"the keys here are: {', '.join(siblings)}"
    return Fault(keys=((*table, name),), problem="unknown key", hint=hint)


def _keys(shape: Shape, base: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield every key below a type, tables and names that any would do for as examples."""
    for name, inner in below(shape.form):
        yield (*base, name)
        yield from _keys(inner, (*base, name))
