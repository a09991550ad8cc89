"""Bounds the cost of untrusted JSON: counts its values before it is parsed, and reports only its first faults.

A parsed value takes thirty times as much memory as its text, and half a microsecond. Listing all faults of a hostile
value takes seconds. Both hold the interpreter until they are done.
"""

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

MOST_VALUES: Final = 100_000
"""In one text from outside."""

_CHUNK_BYTES = 1 << 16
_PUNCTUATION = (b",", b"[", b"{")
_MOST_LISTED: Final = 1000


def has_many_values(text: bytes | bytearray, most: int = MOST_VALUES) -> bool:
    """Tell whether a JSON text has more values than may be parsed."""
    return _marks(text) > most and count_values(text, most) > most


def count_values(text: bytes | bytearray, most: int = MOST_VALUES) -> int:
    """Count the values roughly, in linear time; above ``most``, returns any larger number.

    Strings may hold any number of commas. Invalid JSON is counted correctly up to where a parser gives up.
    """
    text = text.replace(b"\\\\", b"").replace(b'\\"', b"")  # now each quote begins or ends a string
    marks = quotes = 0
    for at in range(0, len(text), _CHUNK_BYTES):
        inside = quotes & 1
        pieces = text[at : at + _CHUNK_BYTES].split(b'"')
        marks += _marks(b" ".join(pieces[inside::2]))
        quotes += len(pieces) - 1
        if marks > most or quotes > 4 * (most + 1):  # a value has at most two strings: its key and itself
            return most + 1
    return marks


def has_infinity(value: object) -> bool:
    """Tell whether a parsed text has a number that is infinite: parsers read 1e999 so, and encoders write it as null.

    Without recursion: the text decides how deep it is.
    """
    pending = [value]
    while pending:
        member = pending.pop()
        if isinstance(member, dict):
            pending += member.values()
        elif isinstance(member, list):
            pending += member
        elif isinstance(member, float) and not math.isfinite(member):
            return True
    return False


def first_faults(error: "ValidationError", most: int = 1) -> "list[ErrorDetails]":
    """The first faults, at least one; with thousands of faults, only their number."""
    count = error.error_count()
    if count > _MOST_LISTED:
        return [{"type": "too_many", "loc": ("…",), "msg": f"{count} values are not as they should be", "input": "…"}]
    return error.errors(include_url=False, include_context=False)[:most]


def _marks(text: bytes | bytearray) -> int:
    return sum(text.count(mark) for mark in _PUNCTUATION)  # not by map: other threads may run between two counts
