"""Regular expressions that are compiled when they are first used: a start would spend a tenth of its time on them."""

import re
from typing import TYPE_CHECKING, Any


class _LatePattern:
    def __init__(self, *arguments: Any) -> None:  # noqa: ANN401 - as ``re.compile``
        self._arguments = arguments

    def __getattr__(self, attribute: str) -> object:
        value = getattr(re.compile(*self._arguments), attribute)
        self.__dict__[attribute] = value
        return value


if TYPE_CHECKING:
    late_pattern = re.compile
else:
    late_pattern = _LatePattern
