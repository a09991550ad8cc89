"""Short schemas."""

from typing import Literal

from pydantic import BaseModel, JsonValue

from gloveport.server.tools.lean_schema import lean


class Part(BaseModel):
    """Prose."""

    title: str
    size: int | None = None


class Whole(BaseModel):
    """Prose."""

    kind: Literal["a", "b"] = "a"
    part: Part
    parts: list[Part] = []
    either: int | str | None = None
    anything: JsonValue = None
    hidden: Part


def test_a_schema_says_everything_that_binds_and_nothing_else():
    part = {
        "type": "object",
        "properties": {"title": {"type": "string"}, "size": {"type": "integer"}},
        "required": ["title"],
        "additionalProperties": False,
    }
    assert lean(Whole.model_json_schema(), opaque=frozenset({"hidden"})) == {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["a", "b"]},
            "part": part,
            "parts": {"type": "array", "items": part},
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "anything": {},
            "hidden": {"type": "object"},
        },
        "required": ["part", "hidden"],
        "additionalProperties": False,
    }
