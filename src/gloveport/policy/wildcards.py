"""Matches patterns in which ``*`` stands for any number of any characters. All else is literal and case-sensitive.

For paths of requests, where segments count, see ``policy.hosts.url_paths``.
"""

from collections.abc import Set as AbstractSet


def matches(pattern: str, text: str) -> bool:
    """Tell whether a pattern matches a text. Each piece takes time linear in the length of the text."""
    first, *others = pattern.split("*")
    if not others:
        return text == pattern
    *middle, last = others
    place, end = len(first), len(text) - len(last)
    if end < place or not text.startswith(first) or not text.endswith(last):
        return False
    for piece in middle:  # the first match of a piece is as good as any later one
        found = text.find(piece, place, end)
        if found < 0:
            return False
        place = found + len(piece)
    return True


def has_match(patterns: AbstractSet[str], text: str) -> bool:
    """Tell whether one of the patterns matches a text."""
    if text in patterns:
        return True
    for pattern in patterns:  # noqa: SIM110 - each command asks some fifty times: a generator takes twice as long
        if "*" in pattern and matches(pattern, text):
            return True
    return False
