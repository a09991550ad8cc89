"""Compiles glob patterns for paths to regular expressions whose matching can't explode.

A pattern may be an attack: with many stars, backtracking takes practically for ever, and Python matches without letting
other threads run. So each star matches as little as possible and never more (an atomic group). For these patterns that
is correct: a block between two stars may as well match at its first place. A match then costs at most text times
pattern.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

_STAR: Final = "*"
_WITHIN: Final = "[^/]"
_ANY: Final = "(?s:.)"


def gitignore_regex(pattern: str) -> str:
    """An expression for one pattern of a .gitignore, without its marks: only ``**`` crosses a ``/``."""
    pieces = re.split(r"(?:\A|(?<=/))\*{2,}(?:/|\Z)", pattern)
    blocks = [_block(piece.removesuffix("/")) for piece in pieces if piece]
    after = ["(?=/)"] * len(blocks)
    if pieces[-1]:
        after[-1] = r"\Z"
    found = [
        # After a ``**`` a block matches at the beginning of a part, and the first such place is as good as any.
        block if pieces[0] and not number else f"(?>(?:[^/]++/)*?{block}{end})"
        for number, (block, end) in enumerate(zip(blocks, after, strict=True))
    ]
    return "/".join(found if pieces[-1] else [*found, "(?s:.+)"])


def listing_regex(pattern: str) -> str:
    """An expression for a pattern of ``list_files``, to be matched with ``/`` and a path.

    It matches the end of a path, from the beginning of a part. ``*`` and ``?`` are any characters, ``/`` too, as the
    clients of ``list_files`` expect; a ``**/`` may also be nothing.
    """
    atoms = [_STAR, "/"]
    for number, piece in enumerate(pattern.removeprefix("/").removeprefix("**/").split("/**/")):
        if number:
            atoms += ["(?=/)", _STAR, "/"]
        atoms += _atoms(piece, _ANY)
    return _sequence(atoms, _ANY)


def _block(block: str) -> str:
    parts = (f"(?>{_sequence(_atoms(part, _WITHIN), _WITHIN)}(?=/|\\Z))" for part in block.split("/"))
    return "/".join(parts)


def _sequence(atoms: Iterable[str], character: str) -> str:
    chunks = [""]
    for atom in atoms:
        if atom is _STAR:
            chunks.append("")
        else:
            chunks[-1] += atom
    if len(chunks) == 1:
        return chunks[0]
    middle = "".join(f"(?>{character}*?{chunk})" for chunk in chunks[1:-1] if chunk)
    return f"{chunks[0]}{middle}{character}*{chunks[-1]}"


def _atoms(pattern: str, character: str) -> Iterator[str]:
    place = 0
    while place < len(pattern):
        sign = pattern[place]
        place += 1
        if sign == "*":
            yield _STAR
        elif sign == "?":
            yield character
        elif sign == "[" and (end := _end_of_class(pattern, place)) > 0:
            yield f"(?:(?={_class(pattern[place:end])}){character})"
            place = end + 1
        elif sign == "\\" and place < len(pattern):
            yield re.escape(pattern[place])
            place += 1
        else:
            yield re.escape(sign)


def _end_of_class(pattern: str, place: int) -> int:
    """Index of the ``]`` that ends a class; -1 if there is none. As the first character of a class it is a member."""
    place += pattern[place : place + 1] in ("!", "^")
    return pattern.find("]", place + 1)


def _class(members: str) -> str:
    negated = members[:1] in ("!", "^")
    signs = members[negated:]
    ranges = []
    place = 0
    while place < len(signs):
        if signs[place] == "\\" and place + 1 < len(signs):
            place += 1
        low = high = signs[place]
        if signs[place + 1 : place + 2] == "-" and place + 2 < len(signs):
            high = signs[place + 2]
            place += 2
        place += 1
        if low <= high:
            ranges.append(f"{re.escape(low)}-{re.escape(high)}")
    if not ranges:
        return _ANY if negated else "(?!)"
    return f"[{'^' if negated else ''}{''.join(ranges)}]"
