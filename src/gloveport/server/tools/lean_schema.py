"""Shortens JSON schemas: a client sends them to its model with every request, which costs tokens."""

from collections.abc import Mapping
from typing import Any

_PROSE = frozenset({"title", "description", "default"})
_LEAST = frozenset({("minimum", 0), ("minimum", 1), ("minLength", 1), ("minItems", 1)})
"""Bounds that follow from an argument's meaning; a caller that goes below one gets an error."""

_TOLD_DEFAULTS = frozenset({"timeout_ms", "yield_time_ms"})
"""Arguments whose default a model should know in advance, since it has to wait so long."""
_NULL = {"type": "null"}


def lean(schema: Mapping[str, Any], *, opaque: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Inline the definitions of an object schema by pydantic, not recursive, and drop prose, most defaults, null and
    lower bounds.

    Null is only ever the default of an optional value, and answers leave defaults out. Of ``opaque`` properties only
    the type, object or array, is kept.
    """
    definitions = schema.get("$defs", {})
    properties = {
        name: {"type": _lean(value, definitions)["type"]} if name in opaque else _lean(value, definitions)
        for name, value in schema.get("properties", {}).items()
    }
    for name in _TOLD_DEFAULTS & properties.keys():
        if "default" in (original := schema["properties"][name]):
            properties[name]["default"] = original["default"]
    required = {"required": schema["required"]} if "required" in schema else {}
    return {"type": "object", "properties": properties, **required, "additionalProperties": False}


def _lean(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        return _lean(definitions[node["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in node:
        choices = [choice for choice in node["anyOf"] if choice != _NULL]
        return (
            _lean(choices[0], definitions) if len(choices) == 1 else {"anyOf": [_lean(c, definitions) for c in choices]}
        )
    if node.get("type") == "object" and "properties" not in node and node.get("additionalProperties", True):
        return {"type": "object"}  # a mapping whose keys the caller chooses
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
