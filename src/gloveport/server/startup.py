"""A server that may still be starting: what it can say by now, and when the rest is known."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
from msgspec import Struct, field

from gloveport.server.fast_path import FastTool
from gloveport.server.server_offer import ServerOffer

if TYPE_CHECKING:
    from mcp.server import MCPServer


class Startup(Struct, eq=False, kw_only=True):
    """What sessions wait for.

    Attributes:
        offer: What the server offers, as far as the configuration tells; without one the SDK answers everything.
        make_server: Makes the SDK's server, in a thread. Not before the host is known to be sound.
        tools: Those that need no SDK.
        has_skills: Whether there are skills, which are listed as resources.
        refusal: Why nothing is run on this host, and what repairs it; empty where all is well.
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
        """Whether the host is known to be sound, or not to be."""
        return self._settled.is_set()

    async def wait_offer(self) -> ServerOffer | None:
        """What is offered, when the host has told the rest of it."""
        await self._offered.wait()
        return self.offer

    async def wait_settled(self) -> None:
        """Return when the host is known to be sound, or not to be."""
        if not self.is_settled:  # else this would be a turn of the event loop, for each message
            await self._settled.wait()

    def set_offer(self, offer: ServerOffer) -> None:
        """The host has told what is offered."""
        self.offer = offer
        self._offered.set()

    def settle(self, make_server: "Callable[[], MCPServer[Any]]", tools: Mapping[str, FastTool] | None = None) -> None:
        """The host is sound: calls go on from here."""
        self.make_server, self.tools = make_server, tools or {}
        self._offered.set()
        self._settled.set()

    def refuse(self, why: str) -> None:
        """The host lacks something: every call is answered with this."""
        self.refusal = why
        self._offered.set()
        self._settled.set()
