"""Makes pydantic models of our values: for the schemas that clients get, and for faults in pydantic's words.

Imported only when needed, since it imports pydantic.
"""

from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model
from pydantic import Field as PydanticField

from gloveport.model.value import FieldType, Value, fields_of

_VALUE = "__gloveport_value__"


@cache
def pydantic_model(kind: type[Value]) -> type[BaseModel]:
    """The model of a class of values."""
    fields: Any = {name: (_translate(field.annotation), _default(field)) for name, field in fields_of(kind).items()}
    model = create_model(
        kind.__name__,
        __config__=ConfigDict(frozen=True, extra="forbid", protected_namespaces=()),
        __doc__=kind.__doc__,
        __module__=kind.__module__,
        **fields,
    )
    setattr(model, _VALUE, kind)
    return model


def validate(form: Any, data: object) -> Any:  # noqa: ANN401 - a type form, and a value of it
    """Convert JSON data to a value of a type, with pydantic's lax conversions.

    Raises:
        pydantic.ValidationError: The data does not fit the type.
    """
    return _to_value(_adapter_of(form).validate_python(data))


@cache
def _adapter_of(form: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - a type form
    return TypeAdapter(_translate(form))


def _to_value(found: Any) -> Any:  # noqa: ANN401 - of any type
    """Convert pydantic's models to our values, recursively."""
    match found:
        case BaseModel() if hasattr(type(found), _VALUE):
            return getattr(type(found), _VALUE)(**{name: _to_value(inner) for name, inner in found})
        case Mapping():
            return {key: _to_value(inner) for key, inner in found.items()}
        case tuple():
            return tuple(map(_to_value, found))
        case _:
            return found


def _default(field: FieldType) -> Any:  # noqa: ANN401 - of any type
    if field.is_required:
        return ...
    if field.factory:
        return PydanticField(default_factory=field.factory)
    return PydanticField(_to_model(field.default), exclude=field.is_excluded or None)


def _to_model(value: Any) -> Any:  # noqa: ANN401 - of any type
    """Convert the default of a field to pydantic's models, so that a schema can have it."""
    if isinstance(value, Value):
        fields = {name: _to_model(inner) for name, inner in value.items()}
        return pydantic_model(type(value)).model_construct(**fields)
    return value


def _translate(form: Any) -> Any:  # noqa: ANN401 - a type form
    """Replace our values in a type with their models."""
    if isinstance(form, type) and issubclass(form, Value):
        return pydantic_model(form)
    origin = get_origin(form)
    if origin is Annotated:
        return Annotated[(_translate(form.__origin__), *form.__metadata__)]
    if origin is None or origin is Literal or not get_args(form):
        return form
    inner = tuple(map(_translate, get_args(form)))
    return Union[inner] if origin in {Union, UnionType} else cast("Any", origin)[inner]  # noqa: UP007 - of any number
