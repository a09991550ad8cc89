"""Analyses the types of fields: the parts of a table, an array or a union, unwrapped."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeGuard, Union, get_args, get_origin

from gloveport.model.constraints import Shape, shape_of
from gloveport.model.value import Value, fields_of


def is_table(form: Any) -> TypeGuard[type[Value]]:  # noqa: ANN401 - a type form
    """Tell whether a type is a table with keys of its own."""
    return isinstance(form, type) and issubclass(form, Value)


def is_mapping(form: Any) -> bool:  # noqa: ANN401 - a type form
    """Tell whether a type is a table whose keys are names that the operator chooses."""
    return get_origin(form) is Mapping


def words(form: Any) -> tuple[str, ...]:  # noqa: ANN401 - a type form
    """Give the words that a key may be set to; empty if its type is not a choice of words."""
    return get_args(form) if get_origin(form) is Literal else ()


def choice(allowed: Iterable[str]) -> Shape:
    """Give the type of a field that is one of these words."""
    return Shape(Literal[tuple(allowed)])


@cache
def members(form: Any) -> Mapping[str, type[Value]]:  # noqa: ANN401 - a type form
    """Give the tables of a union by the ``kind`` that chooses each; empty for any other type."""
    if get_origin(form) not in {Union, UnionType}:
        return {}
    tables = [table for table in get_args(form) if is_table(table)]
    return {words(fields_of(table)["kind"].shape.form)[0]: table for table in tables}


def element(form: Any) -> Shape | None:  # noqa: ANN401 - a type form
    """Give the element type of an array or a mapping; None for a type without elements."""
    if is_mapping(form):
        return shape_of(get_args(form)[1])
    return shape_of(get_args(form)[0]) if get_origin(form) in {tuple, frozenset} else None


def is_of_tables(form: Any) -> bool:  # noqa: ANN401 - a type form
    """Tell whether a type is an array whose elements are tables."""
    inner = None if is_mapping(form) else element(form)
    return inner is not None and (is_table(inner.form) or bool(members(inner.form)))


def below(form: Any) -> Iterator[tuple[str | int, Shape]]:  # noqa: ANN401 - a type form
    """Yield the keys and types directly below a table, a union or an array; a freely chosen key is an example."""
    if is_table(form):
        yield from ((name, field.shape) for name, field in fields_of(form).items())
    for table in members(form).values():
        yield from below(table)
    if inner := element(form):
        yield "NAME" if is_mapping(form) else 0, inner
