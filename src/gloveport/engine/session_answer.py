"""Reads the state that a session's supervisor reports: as bounded and escaped text, or not at all."""

from collections.abc import Mapping
from typing import Final, TypeVar

from gloveport.model import Variable
from gloveport.model.json_value import JsonValue
from gloveport.model.reading import WrongShapeError, read_value
from gloveport.untrusted_text import one_line

_Item = TypeVar("_Item")

_MOST_VARIABLES: Final = 50
_TEXT_CHARACTERS: Final = 300


def read_text(answer: Mapping[str, JsonValue], key: str) -> str:
    """One line of text under this key; empty if there is none."""
    text = answer.get(key)
    return one_line(text, _TEXT_CHARACTERS) if isinstance(text, str) else ""


def read_changes(answer: Mapping[str, JsonValue]) -> tuple[tuple[Variable, ...], tuple[str, ...]]:
    """The first changed variables, and the names of the first removed ones."""
    found = answer.get("variables")
    variables = found if isinstance(found, dict) else {}
    names = _read_list(str, variables.get("removed"))
    return _read_list(Variable, variables.get("changed")), tuple(one_line(name, _TEXT_CHARACTERS) for name in names)


def _read_list(kind: type[_Item], found: JsonValue) -> tuple[_Item, ...]:
    if not isinstance(found, list) or not found:
        return ()
    try:
        return read_value(tuple[kind, ...], found[:_MOST_VARIABLES])  # type: ignore[valid-type]
    except WrongShapeError:
        return ()
