r"""Escapes untrusted text for people, models and generated code: no character hides, moves a cursor or ends a literal.

Escapes are written as TOML, JSON and Python read them: ``\n``, ``\u200b``, ``\U000e0041``.
"""

import json
import re

UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # all default-ignorable
    "\u2800\U0001d159]"  # and characters that are drawn as nothing
)
"""Invisible characters, many of which Python counts as printable: joiners, fillers, variation selectors
(Default_Ignorable_Code_Point of Unicode). A message can hide in them, and many servers drop them.
"""

_SHORT_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def is_visible(text: str) -> bool:
    """Whether every character shows as itself: no control, no bidirectional override, nothing ignorable."""
    return text.isprintable() and (text.isascii() or UNSEEN.search(text) is None)


def printable(text: str) -> str:
    """Escape controls (line ends too), bidirectional overrides and all other invisible characters."""
    return text if is_visible(text) else "".join(c if is_visible(c) else _escape(c) for c in text)


def printable_lines(text: str) -> str:
    """Escape like ``printable``, but leave ends of lines as they are."""
    return "\n".join(map(printable, text.split("\n")))


def shorten(text: str, limit: int = 200) -> str:
    """A text, by default a path for a message, of at most so many characters and a mark that more were cut off."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def one_line(text: str, limit: int) -> str:
    """The text as one printable line of at most so many characters before they are escaped."""
    joined = " ".join(text[: 4 * limit].split())
    return printable(joined if len(joined) <= limit else f"{joined[: limit - 1]}…")


def quote(text: str) -> str:
    """The text as a literal in double quotes, for Python and people."""
    return printable(json.dumps(text, ensure_ascii=False))


def _escape(character: str) -> str:
    code = ord(character)
    return _SHORT_ESCAPES.get(character) or (f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
