"""The start of a server: what it can answer already, and events for the rest."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
from msgspec import Struct, field

from gloveport.server.fast_path import FastTool
from gloveport.server.server_offer import ServerOffer

if TYPE_CHECKING:
    from mcp.server import MCPServer


class Startup(Struct, eq=False, kw_only=True):
    """The state of a start, for which sessions wait. It is settled when the host is known to be sound or not.

    Attributes:
        offer: What the server offers, as far as the configuration determines it; None: the SDK answers everything.
        make_server: Makes the SDK's server, in a thread; None until the host is known to be sound.
        has_skills: Whether there are skills, which are listed as resources.
        refusal: Why nothing can be run on this host, and how to repair it; empty on a sound host.
    """

    offer: ServerOffer | None = None
    make_server: "Callable[[], MCPServer[Any]] | None" = None
    tools: Mapping[str, FastTool] = field(default_factory=dict)
    has_skills: Callable[[], bool] = bool
    refusal: str = ""
    _offered: anyio.Event = field(default_factory=anyio.Event)
    _settled: anyio.Event = field(default_factory=anyio.Event)

    @property
    def is_settled(self) -> bool:
        """Whether the start is settled."""
        return self._settled.is_set()

    async def wait_offer(self) -> ServerOffer | None:
        """Wait for the complete offer, which depends on the host too."""
        await self._offered.wait()
        return self.offer

    async def wait_settled(self) -> None:
        """Wait until the start is settled."""
        if not self.is_settled:  # waiting for a set event would still cost a turn of the event loop, for each message
            await self._settled.wait()

    def set_offer(self, offer: ServerOffer) -> None:
        """Set the complete offer."""
        self.offer = offer
        self._offered.set()

    def settle(self, make_server: "Callable[[], MCPServer[Any]]", tools: Mapping[str, FastTool] | None = None) -> None:
        """The host is sound: let the waiting calls go on."""
        self.make_server, self.tools = make_server, tools or {}
        self._offered.set()
        self._settled.set()

    def refuse(self, why: str) -> None:
        """The host lacks something: answer every call with this refusal."""
        self.refusal = why
        self._offered.set()
        self._settled.set()
