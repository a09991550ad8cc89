"""Shortens JSON schemas: a client gives them to its model with every request, which costs tokens."""

from collections.abc import Mapping
from typing import Any

_PROSE = frozenset({"title", "description", "default"})
_LEAST = frozenset({("minimum", 0), ("minimum", 1), ("minLength", 1), ("minItems", 1)})
"""Bounds that nobody would go below who knows what the argument means; whoever does is told."""

_TOLD_DEFAULTS = frozenset({"timeout_ms", "yield_time_ms"})
"""Arguments whose default a model should know before it waits for its end."""
_NULL = {"type": "null"}


def lean(schema: Mapping[str, Any], *, opaque: frozenset[str] = frozenset()) -> dict[str, Any]:
    """A schema of an object with its definitions inlined, and without prose, most defaults, null and least bounds.

    Null is what an optional value defaults to, and what has its default is left out of an answer.

    Args:
        schema: As pydantic makes it; not recursive.
        opaque: Properties of which no more is said than whether they are objects or arrays.
    """
    definitions = schema.get("$defs", {})
    properties = {
        name: _outline(value, definitions) if name in opaque else _lean(value, definitions)
        for name, value in schema.get("properties", {}).items()
    }
    for name in _TOLD_DEFAULTS & properties.keys():
        if "default" in (told := schema["properties"][name]):
            properties[name]["default"] = told["default"]
    required = {"required": schema["required"]} if "required" in schema else {}
    return {"type": "object", "properties": properties, **required, "additionalProperties": False}


def _outline(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": _lean(node, definitions)["type"]}


def _lean(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        return _lean(definitions[node["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in node:
        choices = [choice for choice in node["anyOf"] if choice != _NULL]
        return (
            _lean(choices[0], definitions) if len(choices) == 1 else {"anyOf": [_lean(c, definitions) for c in choices]}
        )
    if node.get("type") == "object" and "properties" not in node and node.get("additionalProperties", True):
        return {"type": "object"}  # its names are the caller's
    if node.get("type") == "object":
        return lean({**node, "$defs": definitions})
    short = {
        key: value
        for key, value in node.items()
        if key not in _PROSE and not (isinstance(value, int) and (key, value) in _LEAST)
    }
    if "items" in short:
        short["items"] = _lean(short["items"], definitions)
    return short
