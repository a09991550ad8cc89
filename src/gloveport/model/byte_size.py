"""``ByteSize``: a number of bytes, which a person may write with a unit."""

from typing import Any, Final

from gloveport.late_libraries import core_schema, pydantic, pydantic_core
from gloveport.late_pattern import late_pattern

_WRITTEN: Final = late_pattern(r"\s*(\d*\.?\d+)\s*(\w+)?\s*")
_UNITS: Final = {
    f"{letter}{binary}{unit}": (1024 if binary else 1000) ** power * share
    for power, letter in enumerate(("", *"kmgtpe"))
    for binary in ("", "i")
    for unit, share in (("", 1), ("b", 1), ("bit", 1 / 8))
    if not binary or (letter and unit)
}
"""The bytes in each unit."""


class ByteSize(int):
    """A number of bytes."""

    @classmethod
    def parse(cls, written: object) -> "ByteSize":
        """Read a number of bytes, or a text such as ``64MiB``. Raises ValueError if it is neither."""
        if isinstance(written, int) and not isinstance(written, bool) and written >= 0:
            return cls(written)
        if not isinstance(written, str) or (found := _WRITTEN.fullmatch(written)) is None:
            raise ValueError("not a size")
        try:
            return cls(written)
        except ValueError:
            pass
        try:
            return cls(float(found[1]) * _UNITS[(found[2] or "b").lower()])
        except (KeyError, OverflowError):
            raise ValueError("not a size") from None

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> Any:  # noqa: ANN401 - pydantic's own
        """Tell pydantic to use its own ``ByteSize``, but refuse text after the size, which that ignores."""
        same = pydantic.TypeAdapter(pydantic.ByteSize).core_schema
        whole = core_schema.no_info_before_validator_function(_refuse_rest, same)
        return core_schema.no_info_after_validator_function(cls, whole)


def _refuse_rest(written: object) -> object:
    """Raise pydantic's error for a text with more than a size."""
    if isinstance(written, str) and _WRITTEN.fullmatch(written) is None:
        raise pydantic_core.PydanticCustomError("byte_size", "could not parse value and unit from byte string")
    return written
