"""Measures a JSON Schema with its references expanded: a bound on the work of checking a value against it.

A validator follows every path through a schema. A few definitions that refer to each other can have exponentially many.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from gloveport.hub.stubs.schema_reader import target_of
from gloveport.model.json_value import JsonValue, iterate_levels

_MOST_NODES = 20_000
_MOST_DEPTH = 100
_MOST_PATTERNS = 64
_MOST_PATTERN_CHARACTERS = 1000

_UNBOUNDED: Final = frozenset(
    {"$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
"""Keywords that resolve references, or evaluate schemas again, in ways that are not counted here."""


class TooLargeError(Exception):
    """The schema is larger than anybody writes by hand, or refers to itself or to another document."""


class Size(NamedTuple):
    """The size of a schema.

    Attributes:
        values: The number of its values, each counted once for every path to it.
        patterns: The number of its regular expressions.
    """

    values: int
    patterns: int


def size_of(schema: Mapping[str, JsonValue]) -> Size:
    """Measure a schema with its references expanded.

    Raises:
        TooLargeError: It has more than 20,000 values or 64 patterns, or is deeper than 100; or it can't be measured.
    """
    if not isinstance(dialect := schema.get("$schema", ""), str) or "draft-03" in dialect or "draft-04" in dialect:
        raise TooLargeError  # in these drafts ``id`` changes the base of references
    root: JsonValue = {**schema, "$id": None}
    if (patterns := sum(map(_patterns, _nodes(root)))) > _MOST_PATTERNS:
        raise TooLargeError
    return Size(_count(root, root, {}, 0), patterns)


def _count(node: JsonValue, root: JsonValue, counts: dict[int, int], depth: int) -> int:
    """Count the values of a node and below, with references expanded; remember counts by the node's ``id()``."""
    if not isinstance(node, dict | list):
        return 1
    if depth >= _MOST_DEPTH or counts.get(id(node)) == 0:  # 0: the node is being counted, so it refers to itself
        raise TooLargeError
    if id(node) not in counts:
        counts[id(node)] = 0
        count = 1 + sum(_count(below, root, counts, depth + 1) for below in _below(node, root))
        if count > _MOST_NODES:
            raise TooLargeError
        counts[id(node)] = count
    return counts[id(node)]


def _below(node: dict[str, JsonValue] | list[JsonValue], root: JsonValue) -> Iterator[JsonValue]:
    if isinstance(node, list):
        yield from node
        return
    if not node.keys().isdisjoint(_UNBOUNDED) or isinstance(node.get("$id"), str):
        raise TooLargeError
    yield from node.values()  # ``definitions`` too: a parameter may have that name
    if isinstance(reference := node.get("$ref"), str):
        target: object = target_of(root, reference)
        if not isinstance(target, dict):
            raise TooLargeError
        yield target


def _nodes(root: JsonValue) -> Iterator[JsonValue]:
    """Iterate over all values, definitions included, without following references.

    Raises:
        TooLargeError: There are too many values, or they are too deep.
    """
    count = 0
    for depth, level in enumerate(iterate_levels(root)):
        count += len(level)
        if depth >= _MOST_DEPTH or count > _MOST_NODES + 1:  # the root is not counted
            raise TooLargeError
        yield from level


def _patterns(node: JsonValue) -> int:
    """Count the regular expressions of a node; a long one counts for as many as are allowed."""
    if not isinstance(node, dict):
        return 0
    by_pattern = node.get("patternProperties")
    own = [*by_pattern] if isinstance(by_pattern, dict) else []
    own += [pattern] if isinstance(pattern := node.get("pattern"), str) else []
    return len(own) + _MOST_PATTERNS * any(len(text) > _MOST_PATTERN_CHARACTERS for text in own)
