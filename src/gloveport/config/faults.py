"""Wrong keys and values in words. Nothing of pydantic's own text gets out: only where it stumbled, and over what."""

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ValidationError

from gloveport.config.layers import Table
from gloveport.config.schema import Config, KeyPath
from gloveport.config.wording import Kind, dotted, kind_of, shown
from gloveport.model import Value


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One thing that is wrong with the configuration.

    Attributes:
        keys: The keys that disagree; the first that a file sets is the one to correct.
        problem: What was expected and what was found.
        hint: What to write instead.
    """

    keys: tuple[KeyPath, ...]
    problem: str
    hint: str


def validated(data: Table) -> tuple[Config | None, list[Fault]]:
    """Validate merged TOML data: the configuration, or every key and value that has the wrong shape."""
    try:
        # By way of JSON, the one strict mode in which an array is good for a tuple or a set and a string for a path,
        # while "5" is no number and 1 is not true. A date becomes a string, which no key takes in that form.
        return Config.model_validate_json(json.dumps(data, default=str), strict=True), []
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        return None, [_fault(data, detail["loc"], detail["type"]) for detail in details]


def field_at(key: KeyPath) -> tuple[Any, tuple[object, ...]]:
    """Give the type and the constraints of the field, or array element, at a valid key path."""
    annotation: Any = Config
    metadata: tuple[object, ...] = ()
    for part in key:
        if isinstance(part, int):
            annotation, metadata = get_args(annotation)[0], ()
        else:
            field = annotation.model_fields[part]
            annotation, metadata = field.annotation, tuple(field.metadata)
    return annotation, metadata


def _fault(data: Table, key: KeyPath, error: str) -> Fault:
    if error == "extra_forbidden":
        return Fault(keys=(key,), problem="unknown key", hint=_nearest_key(key))
    kind = kind_of(*field_at(key))
    if error == "missing":
        return Fault(keys=(key,), problem=f"missing; expected {kind.expected}", hint=kind.hint)
    found = _value_at(data, key)
    return Fault(
        keys=(key,), problem=f"expected {kind.expected}, found {shown(found)}", hint=_value_hint(kind, key, found)
    )


def _value_at(data: Any, key: KeyPath) -> object:  # noqa: ANN401 - TOML data of any shape
    for part in key:
        data = data[part]
    return data


def _value_hint(kind: Kind, key: KeyPath, found: object) -> str:
    annotation, _ = field_at(key)
    words = [word for word in get_args(annotation) if isinstance(word, str)]
    if near := difflib.get_close_matches(str(found).lower()[:80], words, n=1):
        return f'did you mean "{near[0]}"?'
    return kind.hint


def _nearest_key(key: KeyPath) -> str:
    *table, name = key
    annotation, _ = field_at(tuple(table))
    siblings = list(annotation.model_fields)
    if near := difflib.get_close_matches(str(name)[:80], siblings, n=1):
        return f"did you mean {dotted((*table, near[0]))}?"
    if elsewhere := next((path for path in _keys(Config) if path[-1] == name), None):
        return f"did you mean {dotted(elsewhere)}?"
    return f"the keys here are: {', '.join(siblings)}"


def _keys(model: type[Value], base: KeyPath = ()) -> Iterator[KeyPath]:
    for name, field in model.model_fields.items():
        yield (*base, name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, Value):
            yield from _keys(field.annotation, (*base, name))
