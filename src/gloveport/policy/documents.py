"""Here documents, aside before a grammar reads a text: they may be long, and mean nothing to it."""

import re
from typing import Final

_LONG: Final = 200
_DOCUMENT = re.compile(r"(?<!<)<<(-?)[ \t]*(\\?|['\"])([A-Za-z_]\w*)['\"]?")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_SHELVED = re.compile(r"\A\t*\x01(\d+)\n?\Z")


def without_documents(text: str, shelf: list[str]) -> str:
    """Put what long here documents hold on the shelf, and a mark in its place.

    By lines, without a grammar: a text that is made to look so is not read, which is not worse than a longer one.
    """
    kept: list[str] = []
    lines = iter(_LINE.findall(text))
    for line in lines:
        kept.append(line)
        for tabs, _, end in _DOCUMENT.findall(line):
            body: list[str] = []
            last = ""
            for last in lines:
                if (last.lstrip("\t") if tabs else last).rstrip("\n") == end:
                    break
                body.append(last)
            else:
                last = ""
            whole = "".join(body)
            if len(whole) > _LONG:
                shelf.append(whole)
                whole = f"\x01{len(shelf) - 1}\n"
            kept += [whole, last]
    return "".join(kept)


def shelved(text: str, shelf: list[str]) -> str:
    """What a here document holds, from the shelf where its text is a mark."""
    mark = _SHELVED.match(text)
    number = int(mark[1]) if mark else len(shelf)
    return shelf[number] if number < len(shelf) else text
