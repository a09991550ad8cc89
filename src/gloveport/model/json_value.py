"""``JsonValue``: any value of a JSON document."""

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | int | float | bool | None"
else:
    JsonValue = Any  # pydantic's own type would cause its import just for annotations
