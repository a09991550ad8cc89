"""Takes the types of keys apart: what a table, an array or a union is made of, without its wrapping."""

from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeGuard, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from gloveport.model import Value


class Shape(NamedTuple):
    """A type that is neither ``Annotated`` nor optional, and what constrains its values."""

    form: Any
    constraints: tuple[object, ...] = ()


def shape_of(annotation: Any, constraints: tuple[object, ...] = ()) -> Shape:  # noqa: ANN401 - a type form
    """Unwrap a type."""
    if get_origin(annotation) is Annotated:
        inner, *outer = get_args(annotation)
        return shape_of(inner, (*_flat(outer), *constraints))
    if get_origin(annotation) in {Union, UnionType}:
        some = [member for member in get_args(annotation) if member is not NoneType]
        if len(some) == 1:  # optional: None is what a file can't say
            return shape_of(some[0], constraints)
    return Shape(annotation, constraints)


def shape_of_field(field: FieldInfo) -> Shape:
    """Unwrap the type of a field."""
    return shape_of(field.annotation, tuple(field.metadata))


def is_table(form: Any) -> TypeGuard[type[Value]]:  # noqa: ANN401 - a type form
    """Tell whether a type is a table with keys of its own."""
    return isinstance(form, type) and issubclass(form, Value)


def is_mapping(form: Any) -> bool:  # noqa: ANN401 - a type form
    """Tell whether a type is a table whose keys are names that the operator chooses."""
    return get_origin(form) is Mapping


def words(form: Any) -> tuple[str, ...]:  # noqa: ANN401 - a type form
    """Give the words that a key may be set to; empty where it is not a choice of words."""
    return get_args(form) if get_origin(form) is Literal else ()


def members(form: Any) -> dict[str, type[Value]]:  # noqa: ANN401 - a type form
    """Give the tables of a union by the ``kind`` that chooses each; empty for any other type."""
    if get_origin(form) not in {Union, UnionType}:
        return {}
    return {words(table.model_fields["kind"].annotation)[0]: table for table in get_args(form)}


def element(form: Any) -> Shape | None:  # noqa: ANN401 - a type form
    """Give what an array or a mapping has in it; None for what has no elements."""
    if is_mapping(form):
        return shape_of(get_args(form)[1])
    return shape_of(get_args(form)[0]) if get_origin(form) in {tuple, frozenset} else None


def is_of_tables(form: Any) -> bool:  # noqa: ANN401 - a type form
    """Tell whether a type is an array whose elements are tables."""
    inner = None if is_mapping(form) else element(form)
    return inner is not None and (is_table(inner.form) or bool(members(inner.form)))


def below(form: Any) -> Iterator[tuple[str | int, Shape]]:  # noqa: ANN401 - a type form
    """Yield what may stand directly below a table, a union or an array; the key is an example where any would do."""
    if is_table(form):
        yield from ((name, shape_of_field(field)) for name, field in form.model_fields.items())
    for table in members(form).values():
        yield from below(table)
    if inner := element(form):
        yield "NAME" if is_mapping(form) else 0, inner


def _flat(metadata: list[object]) -> Iterator[object]:
    for item in metadata:
        yield from item.metadata if isinstance(item, FieldInfo) else [item]
