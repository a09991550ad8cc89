"""Words of a shell command, their options, and bash's backslash escapes."""

import re
from collections.abc import Sequence

from msgspec import Struct

_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|([0-7]{1,3})|(.))", re.DOTALL)
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}


class Word(Struct, frozen=True):
    """One word.

    Attributes:
        text: Its text without quoting; unknown parts as they are written.
        known: Whether the text is complete: no part depends on what a program does.
    """

    text: str
    known: bool = True


def options(arguments: Sequence[Word]) -> frozenset[str]:
    """All possible options: each word, long options without their value, and each letter of a cluster as ``-x``."""
    found: set[str] = set()
    for word in arguments:
        if word.text == "--":
            break
        found |= {word.text, word.text.partition("=")[0]} if word.text[:2] == "--" else {word.text}
        if word.text[:1] == "-" and word.text[:2] != "--":
            found |= {f"-{letter}" for letter in word.text[1:]}
    return frozenset(found)


def operands(arguments: Sequence[Word]) -> tuple[Word, ...]:
    """The arguments that are no options."""
    end = next((at for at, word in enumerate(arguments) if word.text == "--"), len(arguments))
    before = tuple(word for word in arguments[:end] if word.text == "-" or word.text[:1] != "-")
    return (*before, *arguments[end + 1 :])


def after_options(arguments: Sequence[Word], valued: re.Pattern[str]) -> Sequence[Word]:
    """The arguments from the first that is neither an option nor the value of one."""
    at = 0
    while at < len(arguments) and (text := arguments[at].text).startswith(("-", "+")):
        if text == "--":
            return arguments[at + 1 :]
        at += 2 if valued.fullmatch(text) else 1
    return arguments[at:]


def unescape(text: str, escaped: str = ".") -> str:
    """The value of a text outside of quotes; ``escaped``: the characters that a backslash escapes, as an expression."""
    return re.sub(rf"(?s)\\(\n|{escaped})", lambda found: found[1].strip("\n"), text)


def unescape_ansi(text: str) -> str:
    """The value of a text in ``$'…'``."""

    def meaning(found: re.Match[str]) -> str:
        octal, letter = found[3], found[4]
        return _ANSI.get(letter, letter) if letter else chr(int(octal, 8) if octal else int(found[1] or found[2], 16))

    return _ESCAPE.sub(meaning, text)
