"""What is wrong with a value from outside, as far as it is told: to list all faults of a hostile one takes seconds, and
whoever lists them holds the interpreter meanwhile.
"""

from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

_MOST_LISTED: Final = 1000


def first_faults(error: ValidationError, most: int = 1) -> list[ErrorDetails]:
    """The first of them, at least one; where there are thousands, only how many."""
    count = error.error_count()
    if count > _MOST_LISTED:
        return [{"type": "too_many", "loc": ("…",), "msg": f"{count} values are not as they should be", "input": "…"}]
    return error.errors(include_url=False, include_context=False)[:most]
