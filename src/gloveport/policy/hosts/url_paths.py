"""Matches paths of requests against patterns, and finds paths that servers may read in two ways.

A path is matched as a server is likely to understand it, so escapes are decoded first. If servers may differ, a path is
``ambiguous``, and rules about paths refuse it: another spelling can't evade a rule.
"""

import re
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

from gloveport.late_pattern import late_pattern

_AMBIGUOUS = late_pattern(
    r"[^\x21-\x7e]"  # control characters, spaces and non-ASCII characters don't belong in a request line
    r"|[?#]"  # the path ends before these
    r"|[\\;]|//"  # a separator to some; `;` begins parameters that some servers cut off: /admin;x/ is /admin/
    r"|%(?![0-9a-f]{2})"  # no escape: decoded, left alone, or %uXXXX
    r"|%(?:[01][0-9a-f]|7f|2f|5c)"  # control characters, separators
    r"|%25(?:[0-9a-f]|%3\d|%[46][1-6]){2}"  # an escape to servers that decode twice; its digits may be escaped, too
    r"|/(?:\.|%2e){1,2}(?:/|%3b|\Z)",  # dot segments; ..; is one to servers that cut parameters off
    re.IGNORECASE | re.ASCII,
)
_BEYOND_ASCII = late_pattern(r"%[89a-f]", re.IGNORECASE)
_ESCAPE = late_pattern(r"%[0-9A-Fa-f]{2}")
# Characters that stay escaped: decoded, they would have another meaning.
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
    """Whether bytes are UTF-8, which overlong forms (a dot or a slash to old servers) are not."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def matches(pattern: str, path: str) -> bool:
    """Tell whether a pattern matches a path as it is in the request.

    ``*`` stands for any characters within a segment, and for at least one if it is the whole segment; ``**`` for any
    characters. The time is linear in the length of the path, whatever both are.
    """
    return _compile_pattern(pattern).fullmatch(_decode_path(path)) is not None


@lru_cache(maxsize=8)  # all rules match the path of a request; paths may be long, so few are kept
def _decode_path(text: str) -> str:
    return _ESCAPE.sub(_decode, text) if "%" in text else text


def _decode(escape: re.Match[str]) -> str:
    character = chr(int(escape[0][1:], 16))
    if character.isascii() and character.isprintable() and character not in _MEANINGFUL:
        return character
    return escape[0].upper()


@lru_cache(maxsize=4096)
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    """Make a regular expression that never tries a position twice.

    A chunk is the text between two ``**``, a piece the text between two ``*`` of a chunk. The first match of a piece in
    a segment is as good as any later one, so it is final (an atomic group), and a chunk is tried once per segment.
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
    atomic_groups = [f"(?>{search}{_join_atomically(pieces)})" for search, pieces in others]
    search, pieces = last
    return re.compile("".join(atomic_groups) + search + _join_atomically(pieces[:-1]) + pieces[-1], re.DOTALL)


def _join_atomically(pieces: list[str]) -> str:
    return "".join(f"(?>{piece})" for piece in pieces)
