"""Removes terminal escape sequences from streamed output: what ``plain`` does for a whole text, piece by piece.

A sequence that a piece cuts in two is held back until its rest has come.
"""

import re

from msgspec import Struct

from gloveport.sandbox.run.capture import plain

# A longer sequence is no colour: it is not waited for, and its rest is shown as text.
_MOST_UNFINISHED = 4096
_UNFINISHED = re.compile(r"(?:\r|\x1b|\x1b\[[0-?]*[ -/]*|\x9b[0-?]*[ -/]*|\x1b[\]PX^_][^\x07\x1b]*\x1b?|\x1b[ -/]+)\Z")


class PlainStream(Struct, kw_only=True):
    """One stream's text without terminal escape sequences and control characters."""

    rest: str = ""

    def feed(self, text: str) -> str:
        """Take the next piece; return the text that can be shown by now."""
        text = self.rest + text
        unfinished = _UNFINISHED.search(text, max(0, len(text) - _MOST_UNFINISHED))
        end = unfinished.start() if unfinished else len(text)
        self.rest = text[end:]
        return plain(text[:end])
