"""Finds invisible characters in a text: an instruction for a model can hide in them."""

import unicodedata
from typing import Final

from gloveport.late_pattern import late_pattern
from gloveport.untrusted_text import UNSEEN

_HIDDEN: Final = late_pattern(rf"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|{UNSEEN.pattern}")
_JOINER, _EMOJI_STYLE, _TEXT_STYLE = "\u200d", "\ufe0f", "\ufe0e"


def find_hidden(text: str) -> str:
    """The invisible characters of a text, as ``U+200B in line 3``; empty if there are none.

    The selector and the joiner of an emoji are allowed where they form one: alone, after a symbol.
    """
    for found in _HIDDEN.finditer(text):
        if not _is_of_emoji(text, found.start()):
            return f"U+{ord(found[0]):04X} in line {text.count(chr(10), 0, found.start()) + 1}"
    return ""


def _is_of_emoji(text: str, at: int) -> bool:
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if text[at] in (_EMOJI_STYLE, _TEXT_STYLE):
        return _is_symbol(before) or before in tuple("0123456789#*")
    if text[at] == _JOINER:
        return (_is_symbol(before) or before == _EMOJI_STYLE) and _is_symbol(after)
    return False


def _is_symbol(character: str) -> bool:
    return character != "" and unicodedata.category(character) in ("So", "Sk", "Sm")
