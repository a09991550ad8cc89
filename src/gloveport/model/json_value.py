"""``JsonValue``: whatever a JSON document can hold."""

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | int | float | bool | None"
else:
    JsonValue = Any  # pydantic's own would have pydantic imported for the sake of annotations
