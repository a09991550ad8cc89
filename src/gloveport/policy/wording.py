"""Pieces of the sentences that refusals are made of, each of a bounded length, whatever is put in."""

import re
from collections.abc import Iterable

UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # all default-ignorable
    "\u2800\U0001d159]"  # and what is drawn as nothing
)
"""What shows nothing, though Python counts much of it as printable: joiners, fillers, variation selectors
(Default_Ignorable_Code_Point of Unicode). A message can hide in it, and many servers drop it."""

FINAL = "Retrying does not help."

_SHOWN = 128
"""As long as the name of a tool may be: a person is never shown half of it."""
_LISTED = 400


def shown(text: str) -> str:
    """Quote what a program sent, in printable characters, cut off where it is long."""
    return ascii(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def listed(items: Iterable[str]) -> str:
    """Join with commas, and say how many more there are where not all have room."""
    every = list(items)
    room = _LISTED
    fitting = 0
    while fitting < len(every) and (room := room - len(every[fitting]) - 2) >= 0:
        fitting += 1
    more = len(every) - fitting
    return ", ".join([*every[:fitting], *([f"{more} more"] if more else [])])


def is_visible(text: str) -> bool:
    """Whether every character of it shows as itself: no control, no bidirectional override, nothing that is ignored."""
    return text.isprintable() and (text.isascii() or UNSEEN.search(text) is None)


def printable(text: str) -> str:
    """Escape controls, bidirectional overrides and whatever else shows nothing, ends of lines among it."""
    return text if is_visible(text) else "".join(c if is_visible(c) else ascii(c)[1:-1] for c in text)
