"""Shapes: the types of values, as programming languages can express them. Where they can't, it is ``ANYTHING``."""

import re
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

Kind: TypeAlias = Literal["string", "integer", "number", "boolean", "null"]
Scalar: TypeAlias = str | int | float | bool | None

MOST_VALUES = 40
MOST_MEMBERS = 24
_NAME_CHARACTERS = 60

_WORD = re.compile(r"[A-Za-z0-9]+")


class Primitive(Struct, frozen=True):
    """One kind of scalar, any value, or no value."""

    kind: Kind | Literal["anything", "nothing"]


ANYTHING: Final = Primitive("anything")
NOTHING: Final = Primitive("nothing")


class Values(Struct, frozen=True):
    """One of these values, each with its kind, since 1 and True are equal in Python."""

    values: tuple[tuple[Kind, Scalar], ...]


class Array(Struct, frozen=True):
    """An array: ``first`` one by one, and then any number of ``rest``."""

    first: tuple["Shape", ...]
    rest: "Shape | None"


class Table(Struct, frozen=True):
    """An object whose names are not known."""

    value: "Shape"


class Union(Struct, frozen=True):
    """One of these, of which there are at least two."""

    members: tuple["Shape", ...]


class Named(Struct, frozen=True):
    """A reference to a named type."""

    name: str


Shape: TypeAlias = Primitive | Values | Array | Table | Union | Named


class Field(Struct, frozen=True):
    """A member of an object. ``name`` and ``text`` are the server's."""

    name: str
    shape: Shape
    required: bool
    text: str


class RecordShape(Struct, frozen=True):
    """A named type: an object with these members, the required ones first.

    Attributes:
        hidden: How many more members the schema declares, which are left out here.
        open: Whether the schema allows members that it does not name.
    """

    name: str
    text: str
    fields: tuple[Field, ...]
    hidden: int = 0
    open: bool = False


class Alias(Struct, frozen=True):
    """A named type: another name for this."""

    name: str
    shape: Shape


class Types(Struct):
    """The named types of one text, in the order of their first use, and the names that are taken in it."""

    taken: set[str]
    named: list[RecordShape | Alias] = field(default_factory=list)

    def claim(self, *wishes: object) -> str:
        """A free name in camel case, after the first wish that is a text with a letter in it."""
        words = next((found for wish in wishes if isinstance(wish, str) and (found := _WORD.findall(wish[:400]))), [])
        stem = "".join(word[0].upper() + word[1:] for word in words)[:_NAME_CHARACTERS]
        stem = stem if stem[:1].isalpha() else f"T{stem}"
        name, number = stem, 1
        while name in self.taken:
            number += 1
            name = f"{stem}_{number}"
        self.taken.add(name)
        return name


def union(shapes: Iterable[Shape]) -> Shape:
    """One of these, without repetition."""
    members: dict[Shape, None] = {}
    values: dict[tuple[Kind, Scalar], None] = {}
    for shape in shapes:
        for member in shape.members if isinstance(shape, Union) else (shape,):
            if member == ANYTHING:
                return ANYTHING
            if isinstance(member, Values):
                values |= dict.fromkeys(member.values)
            elif member != NOTHING:
                members[member] = None
    if values:
        members = {Values(tuple(values)): None} | members
    if len(members) > MOST_MEMBERS or len(values) > 4 * MOST_VALUES:
        return ANYTHING
    return Union(tuple(members)) if len(members) > 1 else next(iter(members), NOTHING)
