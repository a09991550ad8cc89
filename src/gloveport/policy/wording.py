"""Pieces of the sentences that refusals are made of, each of a bounded length, whatever is put in."""

from collections.abc import Iterable

FINAL = "Retrying does not help."

_SHOWN = 128
"""As long as the name of a tool may be: a person is never shown half of it."""
_LISTED = 400


def quote_sent(text: str) -> str:
    """Quote what a program sent, in printable characters, cut off where it is long."""
    return ascii(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def join_listed(items: Iterable[str]) -> str:
    """Join with commas, and say how many more there are where not all have room."""
    every = list(items)
    room = _LISTED
    fitting = 0
    while fitting < len(every) and (room := room - len(every[fitting]) - 2) >= 0:
        fitting += 1
    more = len(every) - fitting
    return ", ".join([*every[:fitting], *([f"{more} more"] if more else [])])
