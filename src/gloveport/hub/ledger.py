"""What a run's answer says of its calls of tools."""

from typing import Final

from msgspec import Struct, field

from gloveport.model.hub import ToolCall

_MOST_LISTED: Final = 50


class Ledger(Struct, kw_only=True):
    """What a run's answer says of its calls.

    Attributes:
        begun: How many there were, the refused ones among them.
        bytes: Size of the arguments and the results together.
        listed: The first of those that are over.
    """

    begun: int = 0
    bytes: int = 0
    listed: list[ToolCall] = field(default_factory=list)

    def add(self, call: ToolCall) -> None:
        """Note one that is over, or refused."""
        if len(self.listed) < _MOST_LISTED:
            self.listed.append(call)
