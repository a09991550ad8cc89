"""Formats parts of refusal messages, each of bounded length for any input."""

from collections.abc import Iterable

from gloveport.untrusted_text import shorten

FINAL = "Retrying does not help."

_SHOWN_CHARACTERS = 128
"""The longest name of a tool, so that a person is never shown half of one."""
_LISTED = 400


def quote_sent(text: str) -> str:
    """Quote what a program sent, in printable characters, cut off where it is long."""
    return ascii(shorten(text, _SHOWN_CHARACTERS))


def join_listed(items: Iterable[str]) -> str:
    """Join items with commas; if not all fit, say how many more there are."""
    every = list(items)
    room = _LISTED
    fitting = 0
    while fitting < len(every) and (room := room - len(every[fitting]) - 2) >= 0:
        fitting += 1
    more = len(every) - fitting
    return ", ".join([*every[:fitting], *([f"{more} more"] if more else [])])
