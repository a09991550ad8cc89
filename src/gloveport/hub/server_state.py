"""The state of one upstream server in the hub: its connection, its budgets, and its tools."""

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


_REPORTS_AN_HOUR = 20


class ToolServer(Protocol):
    """A server that is connected on its first use; ``hub.connection.upstream`` implements it."""

    offered: tuple[Definition, ...] | None
    """The tools that the server listed last; None before the first listing."""

    @property
    def state(self) -> ConnectionState:
        """The state of the connection."""

    async def tools(self) -> tuple[Definition, ...]:
        """List the tools; connects first where necessary. Raises ``UpstreamError``."""

    async def call(
        self, tool: str, arguments: Mapping[str, JsonValue], permit: Callable[[], None], run: str
    ) -> "wire.CallToolResult":
        """Call a tool, once, unless ``permit`` raises when all waiting is over. Waiting runs take turns. Raises
        ``UpstreamError``.
        """

    async def close(self) -> None:
        """Disconnect for good."""


OnTools: TypeAlias = Callable[[tuple[Definition, ...]], Awaitable[None]]
"""Called with a server's tools whenever it has listed them."""

Connect: TypeAlias = Callable[[str, Server, TaskGroup, OnTools], ToolServer]
"""Makes an upstream of a server's name and configuration, without starting it; its tasks run in the group."""

Record: TypeAlias = Callable[[str, Mapping[str, JsonValue]], object]
"""Writes an event to the audit log: its kind, and facts about it."""

Clean: TypeAlias = Callable[[str], str]
"""Removes secrets from a text."""


class ServerState(Struct, kw_only=True):
    """One server: its connection, its budgets of this minute, and its tools.

    Attributes:
        exposed: The server's name in programs.
        times: The budget of calls.
        bytes: The budget of bytes that calls send and receive.
        tools: The accepted tools, by their own names.
        names: The tools' own names, by their names in programs.
        hold_reasons: Why a tool is held back, by its own name.
        reported: Digests of the held-back tools that were reported.
        reports: The budget of reports: a server may offer others each time.
        tools_known: Whether the tools are known: listed by the server, or loaded as accepted in an earlier process.
        late: Whether a search has waited in vain for the server to list its tools.
        pins_stamp: Inode and time of the file of accepted tools when it was last read.
        turn: Lock that is held while an offer is taken in.
    """

    server: Server
    exposed: str
    upstream: ToolServer
    times: Bucket
    bytes: Bucket
    tools: dict[str, Definition] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    hold_reasons: dict[str, str] = field(default_factory=dict)
    reported: dict[str, str] = field(default_factory=dict)
    reports: Bucket = field(default_factory=lambda: Bucket(capacity=_REPORTS_AN_HOUR, seconds=3600))
    tools_known: bool = False
    late: bool = False
    pins_stamp: tuple[int, int] | None = None
    turn: anyio.Lock = field(default_factory=anyio.Lock)
