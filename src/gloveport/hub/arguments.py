"""Checks the arguments of a call against the tool's schema, and explains faults so that a model can act.

The check is a help and no defence: the tool's server checks for itself. The schema is that server's, and hostile: one
that takes long to check, or refers to another document, is not used at all.
"""

import contextlib
import functools
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice
from types import NoneType
from typing import Any, Final

import jsonschema_rs
from jsonschema_rs import ValidationErrorKind as Kind
from msgspec import Struct

from gloveport.hub.definition import Definition
from gloveport.hub.schema_size import Size, TooLargeError, size_of
from gloveport.hub.stubs import typescript_stubs
from gloveport.hub.stubs.interface import Interface
from gloveport.hub.stubs.schema_reader import shape_of, text_of
from gloveport.hub.stubs.shapes import Types
from gloveport.model.json_value import JsonValue
from gloveport.untrusted_text import one_line, quote, shorten

_MOST_STEPS = 1_000_000
_MOST_COPIED_BYTES = 1_000_000
_STEPS_A_CHARACTER = 100  # of a string that regular expressions are matched against
_PATTERN_BYTES = 1 << 18
_CHECKS_KEPT = 512
_FAULTS = 12
_FAULT_CHARACTERS = 300
_SHOWN_CHARACTERS = 60
_MOST_COMPARED = 256
_LONGEST_COMPARED = 64

_KINDS: Final[Mapping[type, str]] = {
    NoneType: "null",
    bool: "boolean",
    str: "string",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_log = logging.getLogger(__name__)


def faults(definition: Definition, arguments: Mapping[str, JsonValue], data: bytes) -> list[str]:
    """List every fault of a call's arguments, one line each, then the tool's parameters; empty if there is no fault.
    ``data`` is the arguments as JSON: encoding them again could block the event loop for a quarter of a second.
    """
    schema, values, guesses = definition.input_schema, dict(arguments), _Guesses()
    found = [
        *_misspelt(schema, values, guesses),
        *(line for error in _errors(definition, values, data) for line in _render_error(schema, error, guesses)),
    ]
    lines = [one_line(line, _FAULT_CHARACTERS) for line in dict.fromkeys(found)]
    if len(lines) > _FAULTS:
        lines = [*lines[:_FAULTS], f"and {len(lines) - _FAULTS} faults more"]
    return [*lines, describe_parameters(definition)] if lines else []


def describe_parameters(definition: Definition) -> str:
    """Write the parameters of a tool in one line: ``the parameters are {title: string, labels?: string[]}``."""
    tool = Interface.of(definition, definition.name, Types(set()))
    text = typescript_stubs.parameters(tool).partition(": ")[2]
    return f"the parameters are {text}" if text else "it takes no parameters"


class _Guesses(Struct):
    """Suggests the known name that a misspelt one most likely stands for, within a budget of comparisons.

    Two hostile names keep one comparison busy for a quarter of a millisecond; longer ones would take several.

    Attributes:
        budget: How many comparisons this check may still make.
    """

    budget: int = _MOST_COMPARED

    def near(self, word: JsonValue, names: Iterable[str]) -> str:
        """Return the name most like the word; empty if none is alike, or the budget is used up."""
        if not isinstance(word, str) or not self.budget:
            return ""
        short = (name for name in names if len(name) <= _LONGEST_COMPARED)
        lowered = {name.lower(): name for name in islice(short, self.budget)}
        self.budget -= len(lowered)
        found = get_close_matches(word[:_LONGEST_COMPARED].lower(), lowered, n=1, cutoff=0.7)
        return lowered[found[0]] if found else ""


@dataclass(frozen=True)
class _Source:
    """A schema, keyed by the digest of its tool, so that its validator is made once."""

    digest: str
    name: str = field(compare=False)
    schema: Mapping[str, JsonValue] = field(compare=False)


@functools.lru_cache(maxsize=_CHECKS_KEPT)
def _validator(source: _Source) -> tuple[jsonschema_rs.Validator, Size] | None:
    """Return the validator of a schema and the schema's size; None, logged once, where it can't be checked against."""
    limits = jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES)
    try:
        size = size_of(source.schema)
        validator = jsonschema_rs.validator_for(
            dict(source.schema), offline=True, pattern_options=limits, validate_formats=False
        )
    except (TooLargeError, ValueError):  # ValueError is the library's: no schema, or it refers to another document
        _log.info("arguments of the tool %s are not checked here: its schema can't be", source.name)
        return None
    return validator, size


def _errors(
    definition: Definition, arguments: dict[str, JsonValue], data: bytes
) -> Sequence[jsonschema_rs.ValidationError]:
    name = ascii(f"{definition.server}/{definition.name}")[:_FAULT_CHARACTERS]
    prepared = _validator(_Source(definition.digest, name, definition.input_schema))
    found: Iterable[jsonschema_rs.ValidationError] = ()
    if prepared is not None:
        validator, size = prepared
        with contextlib.suppress(ValueError, RecursionError):  # it is too deep, or no Unicode
            work = _steps(size, data)
            if work <= _MOST_STEPS and not validator.is_valid(arguments):
                # Each error holds a copy of what is wrong.
                few = work * len(data) <= _MOST_COPIED_BYTES
                found = validator.iter_errors(arguments) if few else _first(validator, arguments)
    return [*islice(found, 10 * _FAULTS)]


def _steps(size: Size, data: bytes) -> int:
    """Bound the steps of a check: it may compare each value with the whole schema, each character with all patterns."""
    values = 1 + data.count(b",") + data.count(b":")
    return size.values * values + size.patterns * _STEPS_A_CHARACTER * len(data)


def _first(validator: jsonschema_rs.Validator, arguments: JsonValue) -> list[jsonschema_rs.ValidationError]:
    try:
        validator.validate(arguments)
    except jsonschema_rs.ValidationError as error:
        return [error]
    return []


def _render_error(
    root: Mapping[str, JsonValue], error: jsonschema_rs.ValidationError, guesses: _Guesses
) -> Iterator[str]:
    """One error in words, a line for each argument that it speaks of."""
    where, schema = tuple(error.instance_path), _place(root, error.schema_path[:-1])
    instance: Any = error.instance
    match error.kind:
        case Kind.Required(name):
            member = _properties(schema).get(name)
            text = text_of(member)
            yield f"{_path((*where, name))}: is missing ({_type(root, member)}{f': {text}' if text else ''})"
        case Kind.AdditionalProperties(unexpected):
            names = [*_properties(schema)]
            yield from (f"{_path((*where, name))}: {_render_unknown_name(name, names, guesses)}" for name in unexpected)
        case Kind.Type(types):
            hint = _conversion(types, instance)
            yield f"{_path(where)}: expected {' or '.join(types)}, got {_kind(instance)}{f'; {hint}' if hint else ''}"
        case Kind.Enum(options):
            choices: list[Any] = options
            near = guesses.near(instance, (choice for choice in choices if isinstance(choice, str)))
            suggestion = f"; did you mean {quote(near)}?" if near else ""
            listed = ", ".join(_render_value(choice) for choice in choices[:_FAULTS])
            yield f"{_path(where)}: {_render_value(instance)} is none of {listed}{suggestion}"
        case Kind.AnyOf() | Kind.OneOfNotValid():
            yield f"{_path(where)}: expected {_type(root, schema)}, got {_kind(instance)}"
        case kind:
            message = error.message if len(error.message) <= 2 * _SHOWN_CHARACTERS else f"does not hold to {kind.name}"
            yield f"{_path(where)}: {message}"


def _misspelt(schema: Mapping[str, JsonValue], arguments: Mapping[str, JsonValue], guesses: _Guesses) -> Iterator[str]:
    """Find unknown arguments that the schema allows, but whose names look like a known one that is missing.

    The server would ignore them, and do something other than the caller meant.
    """
    if "additionalProperties" in schema or "patternProperties" in schema:
        return
    known = _properties(schema)
    for name in islice((name for name in arguments if name not in known), _FAULTS):
        if near := guesses.near(name, (other for other in known if other not in arguments)):
            yield f"{_path((name,))}: there is no such argument; did you mean {_path((near,))}?"


def _render_unknown_name(name: str, names: Sequence[str], guesses: _Guesses) -> str:
    near = guesses.near(name, names)
    return f"there is no such argument{f'; did you mean {_path((near,))}?' if near else ''}"


def _conversion(types: Sequence[str], value: JsonValue) -> str:
    """Suggest how to write a value of the wrong type, where that is plain."""
    match value:
        case None:
            return "leave it out"
        case str() if (
            len(value) <= _FAULT_CHARACTERS and (meaning := _parse_json(value)) is not None and _kind(meaning) in types
        ):
            return (
                f"try {_render_value(meaning)}"
                if isinstance(meaning, bool | int | float)
                else "pass it as it is, not as text"
            )
        case bool() | int() | float() if "string" in types:
            return f"try {quote(json.dumps(value))}"
        case str() | bool() | int() | float() | dict() if (
            "array" in types and len(json.dumps(value)) <= _SHOWN_CHARACTERS
        ):
            return f"try {json.dumps([value], ensure_ascii=False)}"
    return ""


def _parse_json(text: str) -> JsonValue:
    try:
        parsed: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed


def _kind(value: JsonValue) -> str:
    return _KINDS[type(value)]


def _render_value(value: JsonValue) -> str:
    if isinstance(value, dict | list):
        return f"an {_kind(value)}"
    return shorten(json.dumps(value, ensure_ascii=False), _SHOWN_CHARACTERS)


def _type(root: Mapping[str, JsonValue], schema: JsonValue) -> str:
    """Write a schema as a type; named types would need their declarations, so they are not shown."""
    types = Types(set())
    text = typescript_stubs.render_type(shape_of(schema, "object", types, root=root))
    return text if len(text) <= _FAULT_CHARACTERS // 2 and not types.named else "another type"


def _path(place: Sequence[str | int]) -> str:
    """``labels[0].name``."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f"{'.' if text else ''}{part if _WORD.fullmatch(part) else quote(part)}"
    return text or "the arguments"


def _place(root: object, path: Iterable[str | int]) -> Any:  # noqa: ANN401 - a schema may hold anything
    found: Any = root
    for part in path:
        if isinstance(found, dict) and isinstance(part, str):
            found = found.get(part)
        elif isinstance(found, list) and isinstance(part, int) and part < len(found):
            found = found[part]
    return found


def _properties(schema: object) -> Mapping[str, JsonValue]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return properties if isinstance(properties, Mapping) else {}
