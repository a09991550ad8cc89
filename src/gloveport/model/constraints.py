"""What the type of a field demands of its values besides the type: metadata of ``Annotated``, for us and for pydantic.

pydantic takes a third of a start to import, so it is met only where a client is told of a schema, or of a fault in its
words. It expands what says of itself that it is grouped metadata, and so gets its own then.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias, Union, get_args, get_origin

from msgspec import Struct

from gloveport.late_module import late_module

if TYPE_CHECKING:
    import pydantic
else:
    pydantic = late_module("pydantic")


class Shape(NamedTuple):
    """A type that is neither ``Annotated`` nor optional, and what constrains its values."""

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
        if len(some) == 1:  # optional: None is what a file can't say
            return shape_of(some[0], constraints)._replace(is_optional=True)
    return Shape(annotation, constraints)


class Grouped(Struct, frozen=True):
    """Metadata that tells pydantic what it means."""

    __is_annotated_types_grouped_metadata__ = True

    def __iter__(self) -> Iterator[object]:
        """Yield the same in pydantic's terms."""
        raise NotImplementedError


class Constraints(Grouped, frozen=True, kw_only=True):
    """Bounds of a number, of the length of a text or an array; and the pattern of a text.

    Attributes:
        pattern: From ``^`` to ``$``, which stands for the very end.
        strict: Whether pydantic, too, takes nothing but the type itself.
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
        """Raise ``ValueError`` where a part of a text would do for a pattern."""
        if self.pattern is not None and not (self.pattern.startswith("^") and self.pattern.endswith("$")):
            raise ValueError(self.pattern)

    def __iter__(self) -> Iterator[object]:
        """See ``Grouped``."""
        given = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        yield from pydantic.Field(**given).metadata


class Parser(Grouped, frozen=True):
    """Makes the value of what JSON holds in its place; raises ``ValueError`` where that is none."""

    parse: Callable[[Any], object]

    def __iter__(self) -> Iterator[object]:
        """See ``Grouped``."""
        yield pydantic.PlainValidator(self.parse)


class Serializer(Grouped, frozen=True):
    """How a value is dumped, where that is not as it is."""

    dump: Callable[[Any], Any]

    def __iter__(self) -> Iterator[object]:
        """See ``Grouped``."""
        yield pydantic.PlainSerializer(self.dump)


class Excluded(Grouped, frozen=True):
    """Marks a field that is not dumped."""

    def __iter__(self) -> Iterator[object]:
        """See ``Grouped``."""
        yield from ()


def _parse_moment(told: object) -> datetime:
    moment = datetime.fromisoformat(told) if isinstance(told, str) else told
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ValueError("no moment with a time zone")
    return moment


AwareDatetime: TypeAlias = Annotated[datetime, Parser(_parse_moment)]
"""A moment with its time zone."""
