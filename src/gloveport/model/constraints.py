"""Constraints of fields beyond their types: metadata of ``Annotated``, for us and for pydantic.

The import of pydantic takes a third of a start, so it is only used for clients: for schemas, and for faults in its
words. It expands grouped metadata, by which it gets its own kinds of constraints.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, TypeAlias, Union, get_args, get_origin

from msgspec import Struct

from gloveport.late_libraries import pydantic


class Shape(NamedTuple):
    """A type without ``Annotated`` and ``None``, and the constraints of its values."""

    form: Any
    constraints: tuple[object, ...] = ()
    is_optional: bool = False


def shape_of(annotation: Any, constraints: tuple[object, ...] = ()) -> Shape:  # noqa: ANN401 - a type form
    """Unwrap a type."""
    if get_origin(annotation) is Annotated:
        inner, *outer = get_args(annotation)
        return shape_of(inner, (*outer, *constraints))
    if get_origin(annotation) in {Union, UnionType}:
        some = [member for member in get_args(annotation) if member is not NoneType]
        if len(some) == 1:  # optional: a file can't have None
            return shape_of(some[0], constraints)._replace(is_optional=True)
    return Shape(annotation, constraints)


class Grouped(Struct, frozen=True):
    """Metadata that expands to pydantic's own."""

    __is_annotated_types_grouped_metadata__ = True

    def __iter__(self) -> Iterator[object]:
        """Yield the same in pydantic's terms."""
        raise NotImplementedError


class Constraints(Grouped, frozen=True, kw_only=True):
    """Bounds of a number, or of the length of a text or an array; and the pattern of a text.

    Attributes:
        pattern: From ``^`` to ``$``, which stands for the very end.
        strict: Whether pydantic, too, takes only the exact type.
    """

    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    allow_inf_nan: bool | None = None
    strict: bool | None = None

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a pattern that a part of a text could match."""
        if self.pattern is not None and not (self.pattern.startswith("^") and self.pattern.endswith("$")):
            raise ValueError(self.pattern)

    def __iter__(self) -> Iterator[object]:
        """See ``Grouped``."""
        bounds = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        yield from pydantic.Field(**bounds).metadata


class Parser(Grouped, frozen=True):
    """Converts a JSON value to the field's type; raises ``ValueError`` for an unsuitable one."""

    parse: Callable[[Any], object]

    def __iter__(self) -> Iterator[object]:
        """See ``Grouped``."""
        yield pydantic.PlainValidator(self.parse)


class Serializer(Grouped, frozen=True):
    """Converts a value when it is dumped."""

    dump: Callable[[Any], Any]

    def __iter__(self) -> Iterator[object]:
        """See ``Grouped``."""
        yield pydantic.PlainSerializer(self.dump)


class Excluded(Grouped, frozen=True):
    """Marks a field that is not dumped."""

    def __iter__(self) -> Iterator[object]:
        """See ``Grouped``."""
        yield from ()


def _parse_moment(value: object) -> datetime:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ValueError("no moment with a time zone")
    return moment


AwareDatetime: TypeAlias = Annotated[datetime, Parser(_parse_moment)]
"""A moment with its time zone."""
