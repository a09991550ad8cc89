"""Reads a JSON Schema as shapes: the part of it that types of programming languages can express.

The schema is hostile: it may refer to itself, to nothing or to the network, have any size, and make no sense. Every
reading ends, and its result is bounded.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from msgspec import Struct, field

from gloveport.hub.stubs.shapes import (
    ANYTHING,
    MOST_MEMBERS,
    MOST_VALUES,
    NOTHING,
    Alias,
    Array,
    Field,
    Kind,
    Named,
    Primitive,
    RecordShape,
    Scalar,
    Shape,
    Table,
    Types,
    Values,
    union,
)

MOST_FIELDS: Final = 200
_MOST_SHAPES = 2000
_MOST_DEPTH = 24
_MOST_PARTS = 64
_VALUE_CHARACTERS = 80
_FIELD_CHARACTERS = 128

_KINDS: Mapping[object, Kind] = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


def shape_of(schema: object, wish: str, types: Types, *, root: object) -> Shape:
    """The shape of a schema: of ``root``, which its references point into, or of a part of it. ``wish`` names its type,
    if the schema has no title; named types are added to ``types``.
    """
    reading = _SchemaReader(root, types)
    return reading.resolve_reference("#", wish) if schema is root else reading.shape(schema, wish)


def record_of(schema: object, wish: str, types: Types) -> RecordShape | None:
    """Read the members of the object that a whole schema describes; None if the schema names no members."""
    return _SchemaReader(schema, types).members(schema, wish)


class _SchemaReader(Struct):
    """One schema while it is read.

    Attributes:
        room: How many shapes may still be made. Those of a shared definition count at each use: each is written out.
        depth: How deep the current schema is nested in others.
        guards: How many arrays and objects surround the current schema. Only inside one may a type refer to itself.
    """

    root: object
    types: Types
    room: int = _MOST_SHAPES
    depth: int = 0
    guards: int = 0
    cuts: int = 0
    shapes: dict[str, tuple[Shape, int]] = field(default_factory=dict)
    open: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def shape(self, schema: object, wish: str) -> Shape:
        self.room -= 1
        if schema is False:
            return NOTHING
        if not isinstance(schema, Mapping) or self.room <= 0 or self.depth >= _MOST_DEPTH:
            return ANYTHING
        self.depth += 1
        try:
            shape = self._read_schema(schema, wish)
        finally:
            self.depth -= 1
        return union([shape, Primitive("null")]) if schema.get("nullable") is True else shape

    def members(self, schema: object, wish: str) -> RecordShape | None:
        for _ in range(_MOST_DEPTH):  # the root may be nothing but a reference to a definition
            if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
                break
            schema = target_of(self.root, schema["$ref"])
        merged = self._object(schema) if isinstance(schema, Mapping) else None
        return None if merged is None else self._record(merged, "", wish)

    def _read_schema(self, schema: Mapping[str, object], wish: str) -> Shape:
        if isinstance(reference := schema.get("$ref"), str):
            return self.resolve_reference(reference, wish)
        if "const" in schema:
            return _values([schema["const"]])
        if isinstance(listed := schema.get("enum"), list):
            return _values(listed)
        if (merged := self._object(schema)) is not None:
            return self._named_record(merged, self.types.claim(_short(merged.get("title")), wish), wish)
        return next((shape for shape in self._candidates(schema, wish) if shape != ANYTHING), ANYTHING)

    def _candidates(self, schema: Mapping[str, object], wish: str) -> Iterator[Shape]:
        """Read the constraints of one schema, all of which hold, as shapes."""
        for keyword in ("anyOf", "oneOf"):
            if isinstance(members := schema.get(keyword), list) and members:
                yield self._union(members, wish)
        if isinstance(parts := schema.get("allOf"), list):
            yield from (self.shape(part, wish) for part in parts[:_MOST_PARTS])
        yield self._read_type(schema, wish)

    def _read_type(self, schema: Mapping[str, object], wish: str) -> Shape:
        kinds = schema.get("type")
        if isinstance(kinds, list):
            return union([self._of_kind(kind, schema, wish) for kind in kinds[:MOST_MEMBERS]]) if kinds else ANYTHING
        if kinds is None and {"items", "prefixItems"} & schema.keys():
            kinds = "array"
        if kinds is None and {"additionalProperties", "patternProperties"} & schema.keys():
            kinds = "object"
        return self._of_kind(kinds, schema, wish)

    def _of_kind(self, kind: object, schema: Mapping[str, object], wish: str) -> Shape:
        self.room -= 1
        if not isinstance(kind, str):
            return ANYTHING
        if kind in _KINDS:
            return Primitive(_KINDS[kind])
        self.guards += 1
        try:
            if kind == "array":
                return self._array(schema, wish)
            return Table(self._union(_values_of_table(schema), wish)) if kind == "object" else ANYTHING
        finally:
            self.guards -= 1

    def _array(self, schema: Mapping[str, object], wish: str) -> Array:
        rest = schema.get("items", True)
        first = schema.get("prefixItems")
        if isinstance(rest, list):  # tuples of drafts before 2020-12
            first, rest = rest, schema.get("additionalItems", True)
        if not isinstance(first, list) or not first:
            return Array((), self.shape(rest, f"{wish}_item"))
        if len(first) > MOST_MEMBERS:
            return Array((), ANYTHING)
        shapes = tuple(self.shape(part, f"{wish}_{number}") for number, part in enumerate(first, 1))
        return Array(shapes, None if isinstance(rest, bool) else self.shape(rest, f"{wish}_item"))

    def _union(self, members: Sequence[object], wish: str) -> Shape:
        if len(members) > MOST_MEMBERS:
            return ANYTHING
        return union([self.shape(member, wish) for member in members])

    def _object(self, schema: Mapping[str, object]) -> Mapping[str, object] | None:
        """Merge the schema with its ``allOf``, if it describes an object with named members."""
        parts = self._parts(schema)
        if not any(isinstance(part.get("properties"), Mapping) and part["properties"] for part in parts):
            return None
        if any(part.get("type", "object") != "object" or {"enum", "const"} & part.keys() for part in parts):
            return None
        if len(parts) == 1:
            return schema
        properties: dict[object, object] = {}
        required: list[object] = []
        for part in parts:
            properties |= own if isinstance(own := part.get("properties"), Mapping) else {}
            required += own if isinstance(own := part.get("required"), list) else []
        extra = next((part["additionalProperties"] for part in parts if "additionalProperties" in part), None)
        return {**schema, "properties": properties, "required": required, "additionalProperties": extra}

    def _parts(self, schema: Mapping[str, object]) -> list[Mapping[str, object]]:
        """List the schema and all schemas of its ``allOf``, with their references followed."""
        parts, seen = [schema], set[str]()
        for part in parts:  # which grow meanwhile
            beside = part.get("allOf")
            for other in beside if isinstance(beside, list) else []:
                if len(parts) >= _MOST_PARTS:
                    return parts
                reference = other.get("$ref") if isinstance(other, Mapping) else None
                if isinstance(reference, str) and reference not in seen:
                    seen.add(reference)
                    other = target_of(self.root, reference)  # noqa: PLW2901 - it stands for what it refers to
                if isinstance(other, Mapping):
                    parts.append(other)
        return parts

    def _named_record(self, schema: Mapping[str, object], name: str, wish: str) -> Named:
        self.types.named.append(self._record(schema, name, wish))
        return Named(name)

    def _record(self, schema: Mapping[str, object], name: str, wish: str) -> RecordShape:
        properties = own if isinstance(own := schema.get("properties"), Mapping) else {}
        listed = schema.get("required")
        required = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
        every = dict.fromkeys(sorted(required - properties.keys()), None) | dict(properties)
        keys = sorted((key for key in every if len(key) <= _FIELD_CHARACTERS), key=lambda key: key not in required)
        self.guards += 1
        fields = tuple(
            Field(key, self.shape(every[key], f"{wish}_{key}"), key in required, text_of(every[key]))
            for key in keys[:MOST_FIELDS]
        )
        self.guards -= 1
        more = schema.get("additionalProperties")
        return RecordShape(
            name, text_of(schema), fields, len(every) - len(fields), more is True or isinstance(more, Mapping)
        )

    def resolve_reference(self, reference: str, wish: str) -> Shape:
        if reference in self.shapes:
            shape, cost = self.shapes[reference]
            self.room -= cost
            return shape if self.room > 0 else ANYTHING
        if reference in self.open:
            if self.open[reference] == self.guards:  # "itself or something else" means something else
                self.cuts += 1
                return NOTHING
            return Named(self.names.setdefault(reference, self.types.claim(_last(reference), wish)))
        target = target_of(self.root, reference)
        if isinstance(target, Mapping) and "$ref" not in target and (merged := self._object(target)) is not None:
            name = self.types.claim(_short(merged.get("title")), _last(reference), wish)
            self.shapes[reference] = (Named(name), 1)
            return self._named_record(merged, name, wish)
        room, cuts = self.room, self.cuts
        self.open[reference] = self.guards
        shape = self.shape(target, _last(reference) or wish)
        del self.open[reference]
        if shape == NOTHING and target is not False:
            shape = ANYTHING
        if reference in self.names:
            self.types.named.append(Alias(self.names[reference], shape))
            shape = Named(self.names[reference])
        if cuts == self.cuts or not self.open:
            self.shapes[reference] = (shape, room - self.room)
        return shape


def target_of(root: object, reference: str) -> object:
    """Find the part of a schema that a reference points to; True, which allows any value, if there is none."""
    if reference != "#" and not reference.startswith("#/"):
        return True
    found = root
    for token in unquote(reference[1:]).split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isdecimal() and len(key) < 9 and int(key) < len(found):
            found = found[int(key)]
        else:
            return True
    return found


def text_of(schema: object) -> str:
    """Return a schema's description, which is the server's text. A title only repeats the name."""
    text = schema.get("description") if isinstance(schema, Mapping) else ""
    return text if isinstance(text, str) else ""


def _values(listed: Sequence[object]) -> Shape:
    if not listed or len(listed) > 1000:
        return ANYTHING
    values: dict[tuple[Kind, Scalar], None] = {}
    for value in listed:
        kind = _kind(value)
        if kind is None:
            return ANYTHING
        values[kind, value] = None  # type: ignore[index]  # what has a kind is a scalar
    if len(values) > MOST_VALUES or any(
        isinstance(value, str) and len(value) > _VALUE_CHARACTERS for _, value in values
    ):
        return union([Primitive(kind) for kind, _ in values])
    return Values(tuple(values))


def _kind(value: object) -> Kind | None:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer" if abs(value) < 1 << 53 else None
        case float():
            return "number" if math.isfinite(value) else None
        case _:
            return None


def _values_of_table(schema: Mapping[str, object]) -> list[object]:
    patterns = schema.get("patternProperties")
    found: list[object] = list(patterns.values()) if isinstance(patterns, Mapping) else []
    more = schema.get("additionalProperties", not found)
    return found if more is False and found else [*found, True if isinstance(more, bool) else more]


def _last(reference: str) -> str:
    return unquote(reference.rpartition("/")[2]).strip("#")


def _short(title: object) -> str:
    """Return a title that can be a type's name; empty for a whole sentence."""
    return title if isinstance(title, str) and len(title) <= 40 and len(title.split()) <= 4 else ""
