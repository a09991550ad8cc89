"""Parses and applies blocks of SEARCH and REPLACE, as CodeForge's clients write them; matches are exact."""

import re
from typing import Final, NamedTuple

from gloveport.errors import Denied
from gloveport.patch_text.matching import describe_nearest
from gloveport.policy.wording import quote_sent

_SEARCH, _BETWEEN, _REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
_MOST_BLOCKS: Final = 100
"""Each block searches the whole program."""

_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
_SHAPE: Final = (
    f"A patch is blocks of the lines `{_SEARCH}`, what is there, `{_BETWEEN}`, what comes in its place, `{_REPLACE}`."
)


class Block(NamedTuple):
    """The lines to find, and their replacement. Both are whole lines."""

    search: str
    replace: str


def parse_blocks(patch: str) -> tuple[Block, ...]:
    """The blocks of a patch, in order. Its lines may end in LF or CRLF. Raises Denied if it is malformed."""
    blocks: list[Block] = []
    parts: list[list[str]] = []  # of the current block: the searched lines, then their replacement
    for line in _LINES.findall(patch):
        word = line.rstrip("\r\n")
        if (word, len(parts)) in ((_SEARCH, 0), (_BETWEEN, 1)):
            parts.append([])
        elif (word, len(parts)) == (_REPLACE, 2):
            blocks.append(Block(*map("".join, parts)))
            parts = []
        elif word in (_SEARCH, _REPLACE) or (not parts and word.strip()):
            raise _shape_fault(f"{quote_sent(word)} stands where it can't")
        elif parts:
            parts[-1].append(line)
    if parts:
        raise _shape_fault("the last block has no end")
    if not 0 < len(blocks) <= _MOST_BLOCKS:
        raise _shape_fault(f"it has {len(blocks)} blocks, and 1 to {_MOST_BLOCKS} are a patch")
    if any(not block.search.strip() for block in blocks):
        raise _shape_fault("a block has nothing to search for")
    return tuple(blocks)


def apply_blocks(text: str, blocks: tuple[Block, ...]) -> str:
    """Apply all blocks, one after the other, or none.

    A patch with one kind of line ends matches a text with the other, which keeps its own.

    Raises:
        Denied: The searched lines are missing, or there more than once.
    """
    for number, block in enumerate(blocks, 1):
        search, replace = block
        if search not in text:
            ends_in_crlf = "\r\n" in text
            search, replace = (_with_ends(one, crlf=ends_in_crlf) for one in block)
        if text.count(search) == 0 and not text.endswith("\n") and text.endswith(search.rstrip("\r\n")):
            search, replace = search.rstrip("\r\n"), replace.rstrip("\r\n")  # the last line has no end
        found = text.count(search)
        if found != 1:
            where = "could not be found" if not found else f"stands there {found} times"
            near = describe_nearest(text.splitlines(), search.splitlines()).get("nearby_text", "")
            raise Denied(
                "patch_failed",
                f"Block {number}: {quote_sent(search[:80])} {where}. Nothing was changed.",
                hint=f"Search for whole lines that stand there once. Near it, with numbers, stand:\n{near}",
            )
        at = text.index(search)
        text = text[:at] + replace + text[at + len(search) :]
    return text


def _with_ends(text: str, *, crlf: bool) -> str:
    plain = text.replace("\r\n", "\n")
    return plain.replace("\n", "\r\n") if crlf else plain


def _shape_fault(why: str) -> Denied:
    return Denied("malformed_patch", f"The patch can't be read: {why}. Nothing was changed.", hint=_SHAPE)
