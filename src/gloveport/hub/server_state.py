"""One upstream server as the hub knows it: how it is reached, how often it may be called, and which tools it offers."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from gloveport.hub.definition import Definition
from gloveport.limits.bucket import Bucket
from gloveport.model.hub import Server
from gloveport.model.json_value import JsonValue

if TYPE_CHECKING:
    import mcp_types as wire

ConnectionState: TypeAlias = Literal["idle", "connecting", "ready", "failed"]


class ToolServer(Protocol):
    """A server that is connected when it is wanted; ``hub.connection.upstream`` is one."""

    offered: tuple[Definition, ...] | None
    """What it has offered when it was last asked; None before that."""

    @property
    def state(self) -> ConnectionState:
        """Whether it is connected."""

    async def tools(self) -> tuple[Definition, ...]:
        """What it offers, after it was connected. Raises ``UpstreamError``."""

    async def call(
        self, tool: str, arguments: Mapping[str, JsonValue], permit: Callable[[], None]
    ) -> "wire.CallToolResult":
        """Call a tool, once, unless ``permit`` raises when all waiting is over. Raises ``UpstreamError``."""

    async def close(self) -> None:
        """Let go of it for good."""


OnTools: TypeAlias = Callable[[tuple[Definition, ...]], Awaitable[None]]
"""Told what a server offers whenever it has said so."""

Connect: TypeAlias = Callable[[str, Server, TaskGroup, OnTools], ToolServer]
"""Makes an upstream of a server's name and configuration; its tasks run in the group. Nothing is started yet."""

Record: TypeAlias = Callable[[str, Mapping[str, JsonValue]], object]
"""Writes down what has happened, of which kind, and facts about it."""

Clean: TypeAlias = Callable[[str], str]
"""Takes the secrets out of a text."""


class ServerState(Struct, kw_only=True):
    """What is known of one server, and what it may still be asked.

    Attributes:
        exposed: The server's name in programs.
        times: How often it may be called just now.
        bytes: How much its calls may send and bring just now.
        tools: Those that are accepted, by their own names.
        names: Own name of each by the name that it has in programs.
        held: Why a tool is held back, by its own name.
        reported: Digests of those that are held back and were reported.
        known: Whether it is known what the server offers: it has said so, now or in an earlier life of ours.
        late: Whether somebody has waited in vain for it to say so.
        seen: The file of what was accepted, as it was when it was read last.
        turn: Held while what it offers is taken in, one offer after the other.
    """

    server: Server
    exposed: str
    upstream: ToolServer
    times: Bucket
    bytes: Bucket
    tools: dict[str, Definition] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    reported: dict[str, str] = field(default_factory=dict)
    known: bool = False
    late: bool = False
    seen: tuple[int, int] | None = None
    turn: anyio.Lock = field(default_factory=anyio.Lock)
