"""What bash makes of backslashes, outside of quotes and within."""

import re

_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r'\\([$`"\\\n])')
_ESCAPED_IN_ANSI = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|[0-7]{1,3}|.)", re.DOTALL)
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}


def unescaped(text: str) -> str:
    """What a text means outside of quotes."""
    return _ESCAPED.sub(_kept, text)


def of_quoted(text: str) -> str:
    """What a text means between double quotes."""
    return _ESCAPED_IN_QUOTES.sub(_kept, text)


def of_ansi(text: str) -> str:
    """What a text means in ``$'…'``."""
    return _ESCAPED_IN_ANSI.sub(_character, text)


def _kept(found: re.Match[str]) -> str:
    return "" if found[1] == "\n" else found[1]


def _character(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "xu" and len(code) > 1:
        return chr(int(code[1:], 16))
    return chr(int(code, 8)) if code[0] in "01234567" else _ANSI.get(code, code)
