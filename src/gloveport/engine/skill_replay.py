"""Turns a run into an example of a skill, and compares another run with it. Pure."""

import base64
from collections.abc import Mapping

from gloveport.model import Result
from gloveport.model.json_value import JsonValue
from gloveport.skills.skill_files import Example

_MESSAGE_CHARACTERS = 200
_STDOUT_CHARACTERS = 16_384


def example_of(
    result: Result, *, arguments: Mapping[str, JsonValue], files: Mapping[str, bytes], exact: bool
) -> Example:
    """A successful run as an example; ``exact``: whether it used no rights, so that each run has this result."""
    has_value = result.value is not None and result.value_type is None
    return Example(
        arguments=arguments,
        files={name: base64.b64encode(data).decode() for name, data in files.items()},
        value=result.value if has_value else None,
        stdout="" if has_value else result.stdout.text[:_STDOUT_CHARACTERS],
        exact=exact,
    )


def find_deviation(example: Example, result: Result) -> str:
    """How a result differs from the example's, for a person; empty where it does not.

    A program that used no rights has the same result each time. Any other has a result of the same shape.
    """
    if result.status != "ok":
        message = result.error.message if result.error is not None else ""
        return f"it ended with {result.status}: {message[:_MESSAGE_CHARACTERS]}".rstrip(": ")
    value = None if result.value_type is not None else result.value
    if example.exact:
        if value != example.value:
            return "its value is another one"
        is_same = example.value is not None or result.stdout.text.startswith(example.stdout)
        return "" if is_same else "it printed something else"
    return "" if _shape_of(value) == _shape_of(example.value) else "its value has another shape"


def _shape_of(value: JsonValue) -> object:
    match value:
        case dict():
            return {name: _shape_of(one) for name, one in value.items()}
        case list():
            return [_shape_of(value[0])] if value else []
        case bool() | None | str():
            return type(value).__name__
        case _:
            return "number"
