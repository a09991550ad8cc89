"""Measures a JSON Schema with its references followed: a bound on the work of checking a value against it.

A checker goes each way through a schema. A few lines that refer to each other can have more ways than there is time.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from gloveport.hub.stubs.schema_reader import target_of
from gloveport.model.json_value import JsonValue

_MOST_NODES = 20_000
_MOST_DEPTH = 100
_MOST_PATTERNS = 64
_MOST_PATTERN_CHARACTERS = 1000

_UNBOUNDED: Final = frozenset(
    {"$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
"""With these a place is found, or looked at again, in ways that are not counted here."""


class TooLargeError(Exception):
    """It is larger than anybody writes by hand, or refers to itself or to what is elsewhere."""


class Size(NamedTuple):
    """How large a schema is.

    Attributes:
        values: In it, each as often as ways lead to it.
        patterns: Regular expressions in it.
    """

    values: int
    patterns: int


def size_of(schema: Mapping[str, JsonValue]) -> Size:
    """How large a schema is, with its references followed.

    Raises:
        TooLargeError: It has more than 20,000, more than 64 patterns, or is deeper than 100; or it can't be told.
    """
    if not isinstance(dialect := schema.get("$schema", ""), str) or "draft-03" in dialect or "draft-04" in dialect:
        raise TooLargeError  # there, a plain id changes what references lead to
    root: JsonValue = {**schema, "$id": None}
    if (patterns := sum(map(_patterns, _nodes(root)))) > _MOST_PATTERNS:
        raise TooLargeError
    return Size(_count(root, root, {}, 0), patterns)


def _count(node: JsonValue, root: JsonValue, known: dict[int, int], depth: int) -> int:
    """The values at a place and below it. Those of a place are counted once, and known by its identity then."""
    if not isinstance(node, dict | list):
        return 1
    if depth >= _MOST_DEPTH or known.get(id(node)) == 0:  # which is being counted: it leads back to itself
        raise TooLargeError
    if id(node) not in known:
        known[id(node)] = 0
        count = 1 + sum(_count(below, root, known, depth + 1) for below in _below(node, root))
        if count > _MOST_NODES:
            raise TooLargeError
        known[id(node)] = count
    return known[id(node)]


def _below(node: dict[str, JsonValue] | list[JsonValue], root: JsonValue) -> Iterator[JsonValue]:
    if isinstance(node, list):
        yield from node
        return
    if not node.keys().isdisjoint(_UNBOUNDED) or isinstance(node.get("$id"), str):
        raise TooLargeError
    yield from node.values()  # definitions as well: an argument may have that name
    if isinstance(reference := node.get("$ref"), str):
        target: object = target_of(root, reference)
        if not isinstance(target, dict):
            raise TooLargeError
        yield target


def _nodes(root: JsonValue) -> Iterator[JsonValue]:
    """Every value, definitions among them.

    Raises:
        TooLargeError: There are too many, or they are too deep.
    """
    level, seen = [root], 0
    for _ in range(_MOST_DEPTH):
        below: list[JsonValue] = []
        for node in level:
            yield node
            if isinstance(node, dict | list):
                below += node.values() if isinstance(node, dict) else node
        seen += len(below)
        if seen > _MOST_NODES:
            raise TooLargeError
        if not below:
            return
        level = below
    raise TooLargeError


def _patterns(node: JsonValue) -> int:
    """How many regular expressions a place has; one that is long counts for as many as there may be."""
    if not isinstance(node, dict):
        return 0
    by_pattern = node.get("patternProperties")
    own = [*by_pattern] if isinstance(by_pattern, dict) else []
    own += [pattern] if isinstance(pattern := node.get("pattern"), str) else []
    return len(own) + _MOST_PATTERNS * any(len(text) > _MOST_PATTERN_CHARACTERS for text in own)
