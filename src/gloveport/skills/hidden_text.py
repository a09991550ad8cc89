"""Finds characters of a text that nobody sees: an instruction for a model can be written in them."""

import re
import unicodedata
from typing import Final

from gloveport.untrusted_text import UNSEEN

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_JOINER, _EMOJI_STYLE, _TEXT_STYLE = "\u200d", "\ufe0f", "\ufe0e"


def find_hidden(text: str) -> str:
    """What of a text does not show, as ``U+200B in line 3``; empty where all of it does.

    The selector and the joiner of an emoji may stand where they make one of it: alone, behind a symbol.
    """
    if text.isascii() and _CONTROL.search(text) is None:
        return ""
    for number, line in enumerate(text.split("\n"), 1):
        for at, character in enumerate(line):
            if (_CONTROL.match(character) or UNSEEN.match(character)) and not _is_of_emoji(line, at):
                return f"U+{ord(character):04X} in line {number}"
    return ""


def _is_of_emoji(line: str, at: int) -> bool:
    before, after = line[at - 1 : at], line[at + 1 : at + 2]
    if line[at] in (_EMOJI_STYLE, _TEXT_STYLE):
        return _is_symbol(before) or before in tuple("0123456789#*")
    if line[at] == _JOINER:
        return (_is_symbol(before) or before == _EMOJI_STYLE) and _is_symbol(after)
    return False


def _is_symbol(character: str) -> bool:
    return character != "" and unicodedata.category(character) in ("So", "Sk", "Sm")
