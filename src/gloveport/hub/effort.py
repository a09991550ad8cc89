"""How much work it is to check a value against a JSON Schema, before a checker is let loose on both.

A checker goes each way through a schema that leads to a value. A few lines that refer to each other can have more ways
than there is time, and so can a value with many members. Here each pair of a place in the schema and a place in the
value is looked at once, and the ways are counted. The count is never too low for a schema that ``is_plain``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from gloveport.hub.stubs.shapes import target_of

_MOST_PAIRS = 20_000
_MOST_DEPTH = 100
_MOST_NODES = 20_000
_MOST_PATTERNS = 64
_MOST_PATTERN_CHARACTERS = 1000
_STEPS_A_CHARACTER = 100  # that a regular expression looks at

_WITHOUT_MEASURE: Final = frozenset(
    {"$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
"""With these a place is found, or looked at again, in ways that are not counted here."""

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SINGLE: Final = ("not", "if", "then", "else")
_BY_NAME: Final = ("dependentSchemas", "dependencies")


class TooMuch(Exception):  # noqa: N818 - an answer
    """The work is more than can be told in a short time."""


def is_plain(schema: Mapping[str, JsonValue]) -> bool:
    """Whether the work with a schema can be told, and its size and its regular expressions are few."""
    if not isinstance(dialect := schema.get("$schema", ""), str) or "draft-03" in dialect or "draft-04" in dialect:
        return False  # there, a plain id changes what references lead to
    patterns = nodes = 0
    level: list[JsonValue] = [{**schema, "$id": None}]
    for _ in range(_MOST_DEPTH):
        below: list[JsonValue] = []
        for node in level:
            if isinstance(node, dict):
                if not node.keys().isdisjoint(_WITHOUT_MEASURE) or isinstance(node.get("$id"), str):
                    return False
                if isinstance(reference := node.get("$ref"), str) and not reference.startswith("#"):
                    return False
                by_pattern = node.get("patternProperties")
                own = [*by_pattern] if isinstance(by_pattern, dict) else []
                own += [pattern] if isinstance(pattern := node.get("pattern"), str) else []
                patterns += len(own) + _MOST_PATTERNS * any(len(text) > _MOST_PATTERN_CHARACTERS for text in own)
                below += node.values()
            elif isinstance(node, list):
                below += node
        nodes += len(below)
        if patterns > _MOST_PATTERNS or nodes > _MOST_NODES:
            return False
        if not below:
            return True
        level = below
    return False


def steps(schema: Mapping[str, JsonValue], value: JsonValue) -> int:
    """How many steps it takes to check a value.

    Raises:
        TooMuch: The value is large, or one of both is deep, or the schema leads back to itself without going deeper.
    """
    root: JsonValue = dict(schema)
    return _Count(root).of(root, value)


@dataclass(slots=True)
class _Count:
    root: JsonValue
    known: dict[tuple[int, int], int] = field(default_factory=dict)  # by identity: both stay as they are meanwhile
    depth: int = 0

    def of(self, schema: JsonValue, value: JsonValue) -> int:
        if not isinstance(schema, Mapping):
            return 1
        pair = (id(schema), id(value))
        if (count := self.known.get(pair)) is not None:
            if count < 0:  # it is being counted
                raise TooMuch
            return count
        if len(self.known) >= _MOST_PAIRS or self.depth >= _MOST_DEPTH:
            raise TooMuch
        self.known[pair] = -1
        self.depth += 1
        listed = schema.get("enum")
        count = 1 + (len(listed) if isinstance(listed, list) else 0) + self._here(schema, value)
        match value:
            case dict():
                count += self._in_object(schema, value)
            case list():
                count += self._in_array(schema, value)
            case str():
                count += len(value) * (_STEPS_A_CHARACTER if isinstance(schema.get("pattern"), str) else 0)
            case _:
                pass
        self.depth -= 1
        self.known[pair] = count
        return count

    def _here(self, schema: Mapping[str, JsonValue], value: JsonValue) -> int:
        """What is said of the value itself, in other places."""
        others: list[JsonValue] = [schema[key] for key in _SINGLE if key in schema]
        for key in _LISTS:
            others += found if isinstance(found := schema.get(key), list) else []
        for key in _BY_NAME:
            others += found.values() if isinstance(found := schema.get(key), dict) else []
        if isinstance(reference := schema.get("$ref"), str):
            target: object = target_of(self.root, reference)
            if not isinstance(target, dict):
                raise TooMuch
            others.append(target)
        return sum(self.of(other, value) for other in others)

    def _in_object(self, schema: Mapping[str, JsonValue], value: Mapping[str, JsonValue]) -> int:
        own, by_pattern = (_mapping(schema.get(key)) for key in ("properties", "patternProperties"))
        count, of_names, of_others = len(value), schema.get("propertyNames"), schema.get("additionalProperties")
        for name, member in value.items():
            count += len(by_pattern) * len(name) * _STEPS_A_CHARACTER + (
                0 if of_names is None else self.of(of_names, name)
            )
            count += sum(self.of(other, member) for other in by_pattern.values())
            count += self.of(own.get(name, of_others), member)
        return count

    def _in_array(self, schema: Mapping[str, JsonValue], value: list[JsonValue]) -> int:
        return len(value) + sum(self.of(other, item) for item in value for other in _of_items(schema))


def _of_items(schema: Mapping[str, JsonValue]) -> Iterator[JsonValue]:
    """All that may be said of an item, as if all were said of each."""
    for key in ("items", "prefixItems", "additionalItems", "contains"):
        found = schema.get(key)
        if isinstance(found, list):
            yield from found
        elif found is not None:
            yield found


def _mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, dict) else {}
