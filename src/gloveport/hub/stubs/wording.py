"""Text of other servers made visible: nothing of it moves a cursor, reverses a line, hides, or ends a literal.

A server's texts are read by people who decide and by models that obey, and stand in generated code.
"""

import json

from gloveport.policy.wording import is_visible


def printable(text: str) -> str:
    r"""The text with every character that does not show as itself written as ``\u200b`` or ``\U000e0041``."""
    return text if is_visible(text) else "".join(c if is_visible(c) else _escape(c) for c in text)


def line(text: str, limit: int) -> str:
    """The text as one printable line of at most so many characters before they are escaped."""
    joined = " ".join(text[: 4 * limit].split())
    return printable(joined if len(joined) <= limit else f"{joined[: limit - 1]}…")


def lines(text: str, limit: int) -> list[str]:
    """The text as printable lines, of at most so many characters together before they are escaped."""
    cut = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return [printable(part).rstrip() for part in cut.strip().replace("\t", "    ").replace("\r\n", "\n").split("\n")]


def quoted(text: str) -> str:
    """The text as a literal in double quotes, for Python and people."""
    return printable(json.dumps(text, ensure_ascii=False))


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
