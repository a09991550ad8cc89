"""Short schemas."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, JsonValue

from gloveport.server.tools.lean_schema import lean


class Part(BaseModel):
    """Prose."""

    title: str
    size: Annotated[int, Field(ge=1, le=9)] | None = None


class Whole(BaseModel):
    """Prose."""

    kind: Literal["a", "b"] = "a"
    part: Part
    parts: list[Part] = []
    either: int | str | None = None
    anything: JsonValue = None
    hidden: Part


def test_a_schema_says_what_binds_and_nothing_that_everybody_knows():
    part = {
        "type": "object",
        "properties": {"title": {"type": "string"}, "size": {"type": "integer", "maximum": 9}},
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
