"""``JsonValue``: any value of a JSON document."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | int | float | bool | None"
else:
    JsonValue = Any  # pydantic's own type would cause its import just for annotations


def iterate_levels(value: JsonValue) -> Iterator[list[JsonValue]]:
    """The value, then its members, then theirs, and so on. Without recursion: an untrusted value has any depth."""
    level = [value]
    while level:
        yield level
        below: list[JsonValue] = []
        for member in level:
            if isinstance(member, dict):
                below += member.values()
            elif isinstance(member, list):
                below += member
        level = below


def is_longer(value: JsonValue | Mapping[str, JsonValue], most: int) -> bool:
    """Whether a value has more than ``most`` characters as JSON, without encoding it. Stops as soon as it does."""
    characters, pending = 0, [value]
    while pending and characters <= most:
        match pending.pop():
            case str() as text:
                characters += len(text)
            case Mapping() as members:
                characters += 2 * len(members)
                if characters <= most:
                    pending += [*members, *members.values()]
            case list() as elements:
                characters += len(elements)
                if characters <= most:
                    pending += elements
            case _:
                characters += 1
    return characters > most
