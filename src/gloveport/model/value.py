"""``Value``, the base of every value: frozen, and strict about its fields."""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import cache
from inspect import get_annotations
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NamedTuple, Self, Union, cast, dataclass_transform, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct, StructMeta
from msgspec.structs import replace

from gloveport.model.byte_size import ByteSize
from gloveport.model.constraints import Excluded, Serializer, Shape, shape_of


class _ValueMeta(StructMeta):
    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> Any:  # noqa: ANN401 - a class
        return super().__new__(mcs, name, bases, namespace, **{"frozen": True, "kw_only": True, **config})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class Value(Struct, metaclass=_ValueMeta, frozen=True, kw_only=True):
    """A frozen value: no field can be changed, and unknown fields are refused.

    A constructor checks no types, since mypy has done so; data from files, programs and clients goes through
    ``reading.read_value`` first. The methods have the names of pydantic's.
    """

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield each field's name and value."""
        for name in fields_of(type(self)):
            yield name, getattr(self, name)

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """A copy with other values of some fields."""
        return replace(self, **update)

    def model_dump(
        self,
        *,
        mode: Literal["python", "json"] = "python",
        exclude: AbstractSet[str] = frozenset(),
        exclude_defaults: bool = False,
        exclude_none: bool = False,
    ) -> dict[str, Any]:
        """The fields as a dictionary, recursively, each by the declared type of its field. ``json`` is for JSON types
        only; ``python`` keeps tuples and other types. ``exclude`` names fields of this value alone.
        """
        return dumper_of(type(self), Style(mode, exclude_defaults, exclude_none))(self, exclude)

    def model_dump_json(self, *, exclude: AbstractSet[str] = frozenset(), exclude_defaults: bool = False) -> str:
        """The fields as a JSON object, without white space."""
        style = Style("text", exclude_defaults, exclude_none=False)
        return msgspec.json.encode(dumper_of(type(self), style)(self, exclude), enc_hook=_plain_int).decode()


class FieldType(Struct, frozen=True, kw_only=True):
    """One field of a value.

    Attributes:
        annotation: Its type as written.
        shape: Its type, unwrapped.
        default: Its default; ``NODEFAULT`` if it has none, None if ``factory`` makes it.
        factory: Makes its default, if that depends on this host.
        is_excluded: Whether it is not dumped.
    """

    annotation: Any
    shape: Shape
    default: Any
    factory: Any
    is_excluded: bool

    @property
    def is_required(self) -> bool:
        """Whether it must be given."""
        return self.default is NODEFAULT


@cache
def fields_of(kind: type[Value]) -> Mapping[str, FieldType]:
    """The fields of a class in their order, without those that a subclass has made class variables."""
    annotations: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        for name, annotation in get_annotations(base).items():
            if str(annotation).startswith("typing.ClassVar"):
                annotations.pop(name, None)
            elif name in kind.__struct_fields__:
                annotations[name] = annotation
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    by_name = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    return {name: _field(annotation, by_name.get(name, NODEFAULT)) for name, annotation in annotations.items()}


def _field(annotation: object, default: Any) -> FieldType:  # noqa: ANN401 - of any type
    shape = shape_of(annotation)
    factory: Any = getattr(default, "factory", None)
    is_empty = factory in {dict, list, set}
    return FieldType(
        annotation=annotation,
        shape=shape,
        default=factory() if is_empty else None if factory else default,
        factory=None if is_empty else factory,
        is_excluded=any(isinstance(one, Excluded) for one in shape.constraints),
    )


class Style(NamedTuple):
    """How values are dumped. In mode ``text`` msgspec encodes the result, so values that it can write stay as is."""

    mode: Literal["python", "json", "text"]
    exclude_defaults: bool
    exclude_none: bool


@cache
def dumper_of(kind: type[Value], style: Style) -> Callable[[Value, AbstractSet[str]], dict[str, Any]]:
    """A function that makes a dictionary of the fields of a class, without those excluded by name."""
    fields = [(name, f, _dump_of(f.shape, style)) for name, f in fields_of(kind).items() if not f.is_excluded]

    def dump(value: Value, exclude: AbstractSet[str]) -> dict[str, Any]:
        table = {}
        for name, field, convert in fields:
            if name in exclude:
                continue
            found = getattr(value, name)
            if style.exclude_defaults and found == (field.factory() if field.factory else field.default):
                continue
            if found is not None and convert is not None:
                found = convert(found)
            if found is not None or not style.exclude_none:
                table[name] = found
        return table

    return dump


def _dump_of(shape: Shape, style: Style) -> Callable[[Any], Any] | None:
    """A function that dumps values of this type; None if they stay unchanged."""
    form, origin = shape.form, get_origin(shape.form)
    if serializer := next((one for one in shape.constraints if isinstance(one, Serializer)), None):
        return serializer.dump
    if origin in {Union, UnionType} or (isinstance(form, type) and issubclass(form, Value)):
        return _dump_of_tables(form, style)
    if origin in {tuple, frozenset}:
        return _dump_of_array(form, style)
    if origin in {Mapping, dict}:
        return _dump_of_mapping(form, style)
    return int if form is ByteSize else None if style.mode == "python" else _AS_JSON.get(form)


_AS_JSON: Mapping[object, Callable[[Any], Any]] = {
    float: float,
    bytes: bytes.decode,
    datetime: lambda moment: moment.isoformat().replace("+00:00", "Z"),
    Path: str,
}


def _dump_of_tables(form: Any, style: Style) -> Callable[[Any], Any] | None:  # noqa: ANN401 - a type form
    nothing = frozenset[str]()
    kinds = get_args(form) or (form,)
    if not all(isinstance(kind, type) and issubclass(kind, Value) for kind in kinds):
        return None if style.mode == "python" else str  # addresses, networks
    if len(kinds) > 1:
        return lambda found: dumper_of(cast("type[Value]", type(found)), style)(found, nothing)
    kind: type[Value] = form
    dump = dumper_of(kind, style)
    if style == _TEXT and _is_plain(kind):
        return lambda found: found if type(found) is kind else dump(found, nothing)
    return lambda found: dump(found, nothing)


def _dump_of_mapping(form: Any, style: Style) -> Callable[[Any], Any] | None:  # noqa: ANN401 - a type form
    dump = _dump_of(shape_of(get_args(form)[1]), style)
    if dump is None:
        return None if style.mode == "text" else dict
    return lambda found: {name: dump(value) for name, value in found.items()}


def _dump_of_array(form: Any, style: Style) -> Callable[[Any], Any] | None:  # noqa: ANN401 - a type form
    inner = [_dump_of(shape_of(one), style) for one in get_args(form) if one is not Ellipsis]
    if not any(inner):
        return list if style.mode == "json" else None
    dump = inner[0]
    assert dump is not None and len(inner) == 1  # noqa: S101, PT018 - no value is in a tuple of things that differ
    make: Callable[[Any], Any] = tuple if style.mode == "python" else list
    return lambda found: make(map(dump, found))


def _plain_int(value: object) -> int:
    """A plain ``int`` of a subclass of it, which msgspec can't write."""
    if not isinstance(value, int):
        raise TypeError(type(value))
    return int(value)


_TEXT = Style("text", exclude_defaults=False, exclude_none=False)


@cache
def _is_plain(kind: type[Value]) -> bool:
    """Whether msgspec writes values of this class as `dumper_of` would."""
    fields = fields_of(kind)
    return [*fields] == [*kind.__struct_fields__] and all(
        not field.is_excluded and _dump_of(field.shape, _TEXT) is None for field in fields.values()
    )
