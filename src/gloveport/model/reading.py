"""Converts JSON or TOML data to values: strictly, and reports all faults at once.

``"5"`` is no number and 1 is not true; an array can become a tuple or a set. An existing value is kept unchanged.
"""

import builtins
import contextlib
import math
import re
import typing
from collections import abc
from collections.abc import Callable, Collection, Iterable, Mapping, Sized
from collections.abc import Set as AbstractSet
from functools import cache, partial
from itertools import repeat
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import Struct

from gloveport.model.byte_size import ByteSize
from gloveport.model.constraints import Constraints, Parser, Shape, shape_of
from gloveport.model.type_shapes import choice, is_table, members, words
from gloveport.model.value import Value, fields_of

_T = TypeVar("_T")
_MOST_TOLD: Final = 1000

Path: TypeAlias = tuple[str | int, ...]
FaultKind: TypeAlias = Literal["unknown", "missing", "name", "value"]


class ReadFault(Struct, frozen=True):
    """One fault in the data.

    Attributes:
        path: Names of fields and keys, and indexes, that lead to it.
        kind: An unknown field, a missing one, a name of the wrong shape, or a value of the wrong shape.
        shape: The type that was expected; for an unknown field that of the table.
    """

    path: Path
    kind: FaultKind
    shape: Shape


class WrongShapeError(ValueError):
    """The data has another shape. The message says where, and quotes no value.

    Attributes:
        faults: The faults, a thousand at most.
    """

    def __init__(self, faults: Iterable[ReadFault]) -> None:
        self.faults = (*faults,)
        super().__init__("; ".join(f"{'.'.join(map(str, one.path))}: {one.kind}" for one in self.faults[:3]))


def read_value(form: type[_T], data: object) -> _T:
    """Convert data to a value of a type. Raises WrongShapeError if the data does not fit the type."""
    reader = _ValueReader()
    with contextlib.suppress(_TooManyFaultsError):
        found = reader.read(shape_of(form), data, ())
        if not reader.faults:
            return cast("_T", found)
    raise WrongShapeError(reader.faults)


def read_json(form: type[_T], text: bytes | str) -> _T:
    """Convert a JSON text to a value of a type, as `read_value` does.

    Raises:
        WrongShapeError: The data does not fit the type, or the text is no JSON.
    """
    try:
        data = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise WrongShapeError([ReadFault((), "value", shape_of(form))]) from error
    return read_value(form, data)


class CheckedValue(Value):
    """A value whose fields are checked when it is made, since they may come from untrusted sources."""

    def __post_init__(self) -> None:
        """Raise ``WrongShapeError`` for a field that does not fit its type."""
        reader = _ValueReader()
        with contextlib.suppress(_TooManyFaultsError):
            for name, field in fields_of(type(self)).items():
                reader.read(field.shape, getattr(self, name), (name,))
        if reader.faults:
            raise WrongShapeError(reader.faults)


class _TooManyFaultsError(Exception):
    pass


class _ValueReader:
    """Reads a value and collects faults. If there are any, the value is meaningless."""

    def __init__(self) -> None:
        self.faults: list[ReadFault] = []

    def read(self, shape: Shape, data: object, path: Path) -> object:
        form = shape.form
        if data is None and shape.is_optional:
            return None
        if is_table(form):
            return self._read_table(form, data, path)
        if tables := members(form):
            return self._read_member(shape, tables, data, path)
        count = len(self.faults)
        try:
            value = self._read_plain(shape, data, path)
        except (ValueError, OverflowError):
            return self._fault(path, "value", shape)
        # An array with wrong elements is not also reported as too short.
        if len(self.faults) == count and not all(map(_meets, shape.constraints, repeat(value))):
            self._fault(path, "value", shape)
        return value

    def _fault(self, path: Path, kind: FaultKind, shape: Shape) -> object:
        self.faults.append(ReadFault(path, kind, shape))
        if len(self.faults) == _MOST_TOLD:
            raise _TooManyFaultsError
        return None

    def _read_table(self, table: type[Value], data: object, path: Path) -> object:
        if isinstance(data, table):
            return data
        shape = Shape(table)
        if not isinstance(data, Mapping):
            return self._fault(path, "value", shape)
        values, count = {}, len(self.faults)
        fields = fields_of(table)
        for name, field in fields.items():
            if name in data:
                values[name] = self.read(field.shape, data[name], (*path, name))
            elif field.is_required:
                self._fault((*path, name), "missing", field.shape)
        for name in data:
            if name not in fields:
                self._fault((*path, name), "unknown", shape)
        return table(**values) if len(self.faults) == count else None

    def _read_member(self, shape: Shape, tables: Mapping[str, type[Value]], data: object, path: Path) -> object:
        if isinstance(data, tuple(tables.values())):
            return data
        if not isinstance(data, Mapping):
            return self._fault(path, "value", shape)
        kind = data.get("kind")
        if isinstance(kind, str) and kind in tables:
            return self._read_table(tables[kind], data, path)
        return self._fault((*path, "kind"), "value" if "kind" in data else "missing", choice(tables))

    def _read_plain(self, shape: Shape, data: object, path: Path) -> object:
        form = shape.form
        for constraint in shape.constraints:
            if isinstance(constraint, Parser):
                return constraint.parse(data)
            if isinstance(constraint, Constraints) and _is_too_long(constraint, data):
                raise ValueError("too long")  # before its elements are read
        if form in _PLAIN:
            return _PLAIN[form](data)
        match get_origin(form):
            case typing.Literal if isinstance(data, str) and data in words(form):
                return data
            case builtins.tuple | builtins.frozenset if isinstance(data, list | tuple | AbstractSet):
                return self._read_array(form, data, path)
            case abc.Mapping | builtins.dict if isinstance(data, Mapping):
                names, values = map(shape_of, get_args(form))
                return dict(self._read_pair(names, values, pair, path) for pair in data.items())
            case _:
                raise ValueError("not of this type")

    def _read_array(self, form: Any, data: Collection[object], path: Path) -> object:  # noqa: ANN401 - a type form
        kinds = get_args(form)
        if get_origin(form) is tuple and kinds[-1] is not Ellipsis:
            if len(kinds) != len(data):
                raise ValueError("not as many")
            pairs = zip(map(shape_of, kinds), data, strict=True)
        else:
            pairs = zip(repeat(shape_of(kinds[0])), data)
        return get_origin(form)(self.read(inner, each, (*path, at)) for at, (inner, each) in enumerate(pairs))

    def _read_pair(self, names: Shape, values: Shape, pair: tuple[Any, object], path: Path) -> tuple[Any, object]:
        name, data = pair
        own, count = (*path, name), len(self.faults)
        try:
            is_name = isinstance(self._read_plain(names, name, own), str)
        except ValueError:
            is_name = False
        if is_name and all(map(_meets, names.constraints, repeat(name))):
            return name, self.read(values, data, own)
        self._fault(own, "name", names)
        value = self.read(values, data, own)
        self.faults[count + 1 :] = [fault for fault in self.faults[count + 1 :] if fault.path != own]  # it says what
        return name, value


def _read_exactly(kind: type, data: object) -> object:
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        raise ValueError("not of this type")
    return data


def _read_float(data: object) -> float:
    if not isinstance(data, int | float) or isinstance(data, bool):
        raise ValueError("no number")  # noqa: TRY004 - as all others
    return float(data)


def _read_str(data: object) -> str:
    if not isinstance(data, str):
        raise ValueError("no text")  # noqa: TRY004 - as all others
    data.encode()  # half of a pair of surrogates is no text
    return data


_PLAIN: Final[Mapping[object, Callable[[object], object]]] = {
    bool: partial(_read_exactly, bool),
    int: partial(_read_exactly, int),
    float: _read_float,
    str: _read_str,
    bytes: partial(_read_exactly, bytes),
    ByteSize: ByteSize.parse,
    Any: lambda data: data,  # any JSON, which the data is already
    object: lambda data: data,
}


def _is_too_long(bound: Constraints, data: object) -> bool:
    return bound.max_length is not None and isinstance(data, Sized) and len(data) > bound.max_length


def _meets(constraint: object, value: Any) -> bool:  # noqa: ANN401 - of the type that the constraint is for
    if not isinstance(constraint, Constraints):
        return True
    bound = constraint
    return not (
        (bound.gt is not None and not value > bound.gt)
        or (bound.ge is not None and not value >= bound.ge)
        or (bound.lt is not None and not value < bound.lt)
        or (bound.le is not None and not value <= bound.le)
        or (bound.min_length is not None and len(value) < bound.min_length)
        or (bound.max_length is not None and len(value) > bound.max_length)
        or (bound.allow_inf_nan is False and not math.isfinite(value))
        or (bound.pattern is not None and not _compile(bound.pattern).match(value))
    )


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """Compile a pattern from ``^`` to ``$``, which in ``re`` would also match before a final newline."""
    return re.compile(rf"(?:{pattern[1:-1]})\Z")
