"""Records the calls of tools of a run, for its answer, and counts its questions about tools."""

from typing import Final

import anyio
from msgspec import Struct, field

from gloveport.model.hub import ToolCall

_MOST_LISTED: Final = 50


class Ledger(Struct, kw_only=True):
    """The calls of tools of one run.

    Attributes:
        run: Identifies the run, where runs take turns. Those nested in it have its ledger, and so its turn.
        total: The number of calls, the refused ones included.
        bytes: Bytes of all arguments and results together.
        searches: The number of questions about tools.
        turn: Held while one question about tools is answered.
        listed: The first calls that have ended.
    """

    run: str
    total: int = 0
    bytes: int = 0
    searches: int = 0
    turn: anyio.Lock = field(default_factory=anyio.Lock)
    listed: list[ToolCall] = field(default_factory=list)

    def add(self, call: ToolCall) -> None:
        """Note a call that has ended or was refused."""
        if len(self.listed) < _MOST_LISTED:
            self.listed.append(call)
