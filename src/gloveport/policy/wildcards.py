"""Patterns in which ``*`` stands for any characters, none included. All else is literal, and so is case.

For paths of requests, where a segment counts, see ``policy.hosts.url_paths``.
"""

from collections.abc import Set as AbstractSet


def matches(pattern: str, text: str) -> bool:
    """Tell whether a pattern means a text. The time is linear in the length of the text for each piece."""
    first, *others = pattern.split("*")
    if not others:
        return text == pattern
    *middle, last = others
    place, end = len(first), len(text) - len(last)
    if end < place or not text.startswith(first) or not text.endswith(last):
        return False
    for piece in middle:  # where a piece is found first is as good a place as any later one
        found = text.find(piece, place, end)
        if found < 0:
            return False
        place = found + len(piece)
    return True


def has_match(patterns: AbstractSet[str], text: str) -> bool:
    """Tell whether a text is like one of some patterns."""
    if text in patterns:
        return True
    for pattern in patterns:  # noqa: SIM110 - each command asks some fifty times: a generator takes twice as long
        if "*" in pattern and matches(pattern, text):
            return True
    return False
