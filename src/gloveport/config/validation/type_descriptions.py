"""Describes the values that a key takes, in the same words for the reference and for every fault."""

from collections.abc import Sequence
from typing import Any, Final, get_args

from msgspec.structs import replace

from gloveport.model.byte_size import ByteSize
from gloveport.model.constraints import Constraints, Shape, shape_of
from gloveport.model.described import Described
from gloveport.model.egress import SECRET_PLACE
from gloveport.model.type_shapes import below, choice, element, is_mapping, is_of_tables, is_table, members, words
from gloveport.model.value import fields_of

_TABLES, _TEXTUAL = "[{ ... }, { ... }]", '["a", "b"]'
_TEXT: Final = Described(expected="text", hint="write it in quotes")
_UNDESCRIBED: Final[dict[object, Described]] = {
    bool: Described(expected="true or false", hint="write it without quotes"),
    str: _TEXT,
    ByteSize: Described(
        expected="a size",
        hint='a plain number is bytes; units are KiB, MiB, GiB (1024) and KB, MB, GB (1000), in quotes: "64MiB"',
    ),
    int: Described(expected="a whole number", hint="write it without quotes, unit or decimal point"),
    float: Described(expected="a number", hint="write it without quotes or unit"),
    Any: Described(expected="any value", hint="write it as TOML has it"),
}
"""Descriptions of plain types."""


def describe(shape: Shape) -> Described:
    """Describe the values that a key of this type takes."""
    form = shape.form
    if allowed := words(form):
        expected = "one of " + ", ".join(f'"{word}"' for word in allowed)
        return Described(expected=expected, hint="write one of these words, in quotes")
    if tables := members(form):
        expected = describe(choice(tables)).expected
        return Described(expected=f"a table whose kind is {expected}", hint='write it as { kind = "KIND", ... }')
    if is_mapping(form):
        return _describe_mapping(form)
    if inner := element(form):
        expected = f"an array{_bounds(shape.constraints, unit='elements')}, each element {describe(inner).expected}"
        return Described(expected=expected, hint=f"write it as {_TABLES if is_of_tables(form) else _TEXTUAL}")
    if is_table(form):
        return Described(expected="a table", hint=f"its keys are: {', '.join(fields_of(form))}")
    described = _own_description(shape)
    return replace(described, expected=described.expected + _bounds(shape.constraints))


def _own_description(shape: Shape) -> Described:
    """The description in a type's annotation; for nested annotations, the innermost one."""
    return next((item for item in shape.constraints if isinstance(item, Described)), None) or _UNDESCRIBED[shape.form]


def _describe_mapping(form: object) -> Described:
    names, values = (shape_of(inner) for inner in get_args(form))
    expected = f"a table, each key {describe(names).expected}"
    if is_table(values.form):
        return Described(expected=expected, hint="write each as a table of its own")
    return Described(
        expected=f"{expected}, each value {describe(values).expected}", hint='write it as { NAME = "value" }'
    )


def is_secret(shape: Shape) -> bool:
    """Tell whether a key takes a reference to a secret."""
    return SECRET_PLACE in shape.constraints


def is_private(shape: Shape) -> bool:
    """Tell whether a person may have written a secret where this type is expected: then no message shows the value."""
    return describe(shape).may_hold_secret or any(is_private(inner) for _, inner in below(shape.form))


def _bounds(constraints: Sequence[object], *, unit: str = "characters") -> str:
    return "".join(_describe_bound(item, unit) for item in constraints if isinstance(item, Constraints))


def _describe_bound(item: Constraints, unit: str) -> str:
    bounds = (
        "" if item.gt is None else f", above {item.gt}",
        "" if item.ge is None else f", at least {item.ge}",
        "" if item.lt is None else f", below {item.lt}",
        "" if item.le is None else f", at most {item.le}",
        "" if item.min_length is None else f", of at least {item.min_length} {unit}",
        "" if item.max_length is None else f", of at most {item.max_length} {unit}",
    )
    return "".join(bounds) if item.min_length != 1 else "".join((*bounds[:4], ", not empty", bounds[5]))
