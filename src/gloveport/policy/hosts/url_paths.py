"""Paths of requests: which of them servers may read in two ways, and which of them a pattern means.

A path is matched as a server is likely to understand it, so escapes are decoded first. Where servers differ, a path is
``ambiguous``, and whoever has rules about paths refuses it: no rule is walked around by another spelling.
"""

import re
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

from gloveport.late_pattern import late_pattern

_AMBIGUOUS = late_pattern(
    r"[^\x21-\x7e]"  # control characters, spaces and what is not ASCII have no place in a request line
    r"|[?#]"  # the path ends before these
    r"|[\\;]|//"  # a separator to some; `;` begins parameters that some servers cut off: /admin;x/ is /admin/
    r"|%(?![0-9a-f]{2})"  # no escape: decoded, left alone, or %uXXXX
    r"|%(?:[01][0-9a-f]|7f|2f|5c)"  # control characters, separators
    r"|%25[0-9a-f]{2}"  # an escape to those that decode twice
    r"|/(?:\.|%2e){1,2}(?:/|%3b|\Z)",  # dot segments; ..; is one to those that cut parameters off
    re.IGNORECASE | re.ASCII,
)
_BEYOND_ASCII = late_pattern(r"%[89a-f]", re.IGNORECASE)
_ESCAPE = late_pattern(r"%[0-9A-Fa-f]{2}")
# What stays escaped: it would mean something else when it is decoded.
_MEANINGFUL = frozenset("/\\%;?#")
_TOKEN = late_pattern(r"(?P<anything>\*\*+)|(?P<segment>(?<=/)\*(?=/|\Z))|(?P<some>\*)|(?P<text>[^*]+)")
_SOME = "[^/]*?"
_SOME_MORE = "[^/]+?"
_SEGMENTS = "(?:[^/]*/)*?"
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))


def ambiguous(path: str) -> bool:
    """Tell whether servers may disagree about what a raw path, without query, names."""
    if not path.startswith("/") or _AMBIGUOUS.search(path) is not None:
        return True
    return _BEYOND_ASCII.search(path) is not None and not _is_utf8(unquote_to_bytes(path))


def _is_utf8(text: bytes) -> bool:
    """Overlong forms, which old servers take for a dot or a slash, are no UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def matches(pattern: str, path: str) -> bool:
    """Tell whether a path, as it is in the request, is one that the pattern means.

    ``*`` stands for anything within a segment, and for one character at least where it is the whole of it; ``**`` for
    anything. The time is linear in the length of the path, whatever both are.
    """
    return _compile_pattern(pattern).fullmatch(_decode_path(path)) is not None


@lru_cache(maxsize=8)  # of one request all rules ask; paths may be long, so few are kept
def _decode_path(text: str) -> str:
    return _ESCAPE.sub(_decode, text) if "%" in text else text


def _decode(escape: re.Match[str]) -> str:
    character = chr(int(escape[0][1:], 16))
    if character.isascii() and character.isprintable() and character not in _MEANINGFUL:
        return character
    return escape[0].upper()


@lru_cache(maxsize=4096)
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    """Make an expression that never tries a place twice.

    Between two ``**`` stands a chunk, between two ``*`` of a chunk a piece. Where a piece is found first in a segment
    is as good a place as any later one, so it is held (an atomic group), and a chunk is tried once from each segment.
    """
    chunks = [[""]]
    for token in _TOKEN.finditer(pattern):
        match token.lastgroup:
            case "anything":
                chunks.append([_SOME])
            case "segment":
                chunks[-1].append(_SOME_MORE)
            case "some":
                chunks[-1].append(_SOME)
            case _:
                chunks[-1][-1] += re.escape(_decode_path(quote(token[0], safe=_PRINTABLE)))
    *others, last = [("" if number == 0 else _SEGMENTS, pieces) for number, pieces in enumerate(chunks)]
    held = [f"(?>{search}{_join_atomically(pieces)})" for search, pieces in others]
    search, pieces = last
    return re.compile("".join(held) + search + _join_atomically(pieces[:-1]) + pieces[-1], re.DOTALL)


def _join_atomically(pieces: list[str]) -> str:
    return "".join(f"(?>{piece})" for piece in pieces)
