"""One connection to a server, from the first attempt until it is closed, and the requests over it.

One task opens, keeps and closes it. Only the handshake and the framing of the SDK's client are used: its ``call_tool``
lists all tools without bounds, and then checks answers on our event loop by the server's own schemas, whose regular
expressions may never end.
"""

import contextlib
import importlib.metadata
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Annotated

import anyio
import mcp_types as wire
from mcp import Client
from mcp.client.session import ClientSession
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Struct
from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from gloveport.errors import GloveportError, UpstreamError
from gloveport.hub.connection.listing import list_tools
from gloveport.hub.connection.unreadable import ASK_FOR_LESS, BAD_ANSWER, TOO_LARGE
from gloveport.hub.connection.wire import Connect, Wire
from gloveport.hub.definition import Definition
from gloveport.limits.untrusted_json import first_faults
from gloveport.model.hub import Server
from gloveport.policy.wording import quote_sent
from gloveport.task_group import flatten_group
from gloveport.untrusted_text import shorten

MODES = ("auto", "legacy")
"""Handshakes to try, in order. Some servers exit if the first message is not that of the older handshake."""

_CLOSE_SECONDS = 2.0
_RELIST_SECONDS, _RELIST_SHARE = 2.0, 20
"""The pause between two listings: at least so many seconds, and so many times the duration of the last listing."""

_LISTEN_SECONDS = 30.0
"""The delay before a lost subscription is requested again."""

_SAID_CHARS = 400

# The common result first, so that only one of the two models is built for an answer.
_ANSWER: TypeAdapter[wire.CallToolResult | wire.InputRequiredResult] = TypeAdapter(
    Annotated[wire.CallToolResult | wire.InputRequiredResult, Field(union_mode="left_to_right")]
)

_log = logging.getLogger(__name__)


class ConnectionTarget(Struct, frozen=True, kw_only=True):
    """The server that a connection leads to, and its bounds.

    Attributes:
        connects: The ways to connect, in the order in which to try them.
        on_tools: Called with the tools whenever the server has listed them.
        clean: Removes secrets from the server's own error messages.
    """

    name: str
    server: Server
    connects: Sequence[Connect]
    on_tools: Callable[[tuple[Definition, ...]], Awaitable[None]]
    clean: Callable[[str], str]

    def error(self, code: str, what: str, hint: str = "") -> UpstreamError:
        """Make the error for a fault of this server."""
        return UpstreamError(code, f"The server {quote_sent(self.name)} {what}.", hint=hint)

    def quote_output(self, text: str) -> str:
        """Quote what the server has said: printable, cut off where it is long."""
        return ascii(shorten(self.clean(text), _SAID_CHARS))  # cleaned before it is cut: half a secret is not found


class UpstreamConnection:
    """One connection to a server, and the task that keeps it."""

    def __init__(self, target: ConnectionTarget, modes: Sequence[str]) -> None:
        """Start the clock of the startup time-out, and nothing else. ``modes`` are the handshakes to try."""
        self._target, self._modes = target, modes
        self._scope = anyio.CancelScope(deadline=anyio.current_time() + target.server.startup_seconds)
        self._session: ClientSession | None = None
        self._wire: Wire | None = None
        self._changed, self._stop, self._let_go = anyio.Event(), anyio.Event(), False
        self.settled, self.over = anyio.Event(), anyio.Event()
        """Set when the connection is ready or has failed; set when it is closed."""
        self.mode: str | None = None
        """The handshake that succeeded."""
        self.fault: UpstreamError | None = None
        """Why the connection has failed; None when it was closed on purpose."""

    @property
    def was_ready(self) -> bool:
        """Whether the connection has ever been usable."""
        return self._session is not None

    @property
    def usable(self) -> bool:
        """Whether the connection can be used now."""
        return self.was_ready and not self._stop.is_set()

    async def ready(self) -> bool:
        """Wait until the connection is usable. False: it was, but is closed by now.

        Raises:
            UpstreamError: It was never usable, or not within the startup time.
        """
        with anyio.CancelScope(deadline=self._scope.deadline):
            await self.settled.wait()
        if not self.settled.is_set():
            raise self._late()  # without waiting until the silent server's process has been ended
        if not self.usable:
            await self.over.wait()
        if not self.was_ready:
            fault = self.fault or self._target.error("server_unavailable", "is not used any more")
            code = "server_unavailable" if fault.code == "server_gone" else fault.code
            raise UpstreamError(code, str(fault.args[0]), hint=fault.hint)
        return self.usable

    def let_go(self) -> None:
        """Ask the connection to close, without waiting."""
        self._let_go = True
        if not self.was_ready:
            self._scope.cancel()
        self._stop.set()

    async def run(self) -> None:
        """Open, keep and close the connection in this one task: the SDK's client must be left by who entered it."""
        try:
            with self._scope:
                await self._connect()
            if not self.was_ready and not self._let_go:
                self.fault = self._late()
        except Exception as error:  # noqa: BLE001 - no fault of one server may end what belongs to others
            self.fault = self._fault(error)
        finally:
            self._stop.set()
            self.settled.set()
            self.over.set()

    async def request(self, tool: str, arguments: Mapping[str, JsonValue]) -> wire.CallToolResult:
        """Call a tool, once, over a ready connection. Raises UpstreamError as ``Upstream.call``."""
        assert self._session is not None  # noqa: S101 - it is ready
        params = wire.CallToolRequestParams(name=tool, arguments=dict(arguments))
        try:
            answer = await self._session.send_request(wire.CallToolRequest(params=params), _ANSWER)
        except MCPError as error:
            raise await self._explain_refusal(error) from error
        except ValidationError as error:
            (first,) = first_faults(error)
            where = self._target.quote_output(".".join(map(str, first["loc"])))
            what = f"has answered with what is no result of a tool: {where}: {self._target.quote_output(first['msg'])}"
            raise self._target.error("bad_answer", what) from error
        if isinstance(answer, wire.InputRequiredResult):
            hint = "Gloveport passes no questions of servers on."
            raise self._target.error("input_required", "asks back before it does anything", hint)
        return answer

    async def _connect(self) -> None:
        first: Exception | None = None
        for connect in self._target.connects:
            for mode in self._modes:
                try:
                    await self._hold_session(connect, mode)
                except Exception as error:
                    if self.was_ready:
                        raise
                    first = first or error
                    if not _has_ended(error):
                        break
                else:
                    return
            if first is not None and not _was_answered(first):
                break  # the server can't be reached at all, so not in another way either
        assert first is not None  # noqa: S101 - there is one way at least
        raise first

    async def _hold_session(self, connect: Connect, mode: str) -> None:
        self._stop = anyio.Event()
        ourselves = wire.Implementation(name="gloveport", version=importlib.metadata.version("gloveport"))
        async with Client(self._open_wire(connect), mode=mode, cache=None, client_info=ourselves) as client:
            await self._list(client)
            self.mode = mode
            self._session = client.session
            self._scope.deadline = math.inf
            self.settled.set()
            await self._attend(client)
            self._scope.deadline = anyio.current_time() + _CLOSE_SECONDS
        if not self._let_go:
            raise self._target.error("server_gone", "has ended the connection")

    @contextlib.asynccontextmanager
    async def _open_wire(self, connect: Connect) -> AsyncIterator[tuple[Wire, Wire]]:
        async with connect() as (reading, writing):
            self._wire = Wire(
                name=self._target.name,
                reading=reading,
                writing=writing,
                on_change=lambda: self._changed.set(),  # noqa: PLW0108 - there is a new event each time
                on_end=self._stop.set,
            )
            yield self._wire, self._wire

    async def _list(self, client: Client) -> None:
        tools, headers = await list_tools(self._target.name, client, int(self._target.server.answer_bytes))
        assert self._wire is not None  # noqa: S101 - the client speaks over it
        self._wire.headers = headers
        await self._target.on_tools(tools)

    async def _attend(self, client: Client) -> None:
        """Serve the notifications of a connection until it is closed."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._relist, client)
            tools = client.server_capabilities.tools
            if tools and tools.list_changed and client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                tasks.start_soon(self._listen, client)
            await self._stop.wait()
            tasks.cancel_scope.cancel()

    async def _relist(self, client: Client) -> None:
        """List the tools again when the server says that they have changed, with a pause however often it says so."""
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            began = anyio.current_time()
            try:
                with anyio.fail_after(self._target.server.startup_seconds):
                    await self._list(client)
            except (MCPError, TimeoutError):
                _log.info("server %s: its tools can't be listed anew; they stay as they were", self._target.name)
            await anyio.sleep(max(_RELIST_SECONDS, _RELIST_SHARE * (anyio.current_time() - began)))

    async def _listen(self, client: Client) -> None:
        """Subscribe to changes of the server's tools; ``Wire`` notices the notifications."""
        while True:
            with contextlib.suppress(MCPError, SubscriptionLost):
                async with client.listen(tools_list_changed=True) as subscription:
                    async for _ in subscription:
                        pass
                self._changed.set()  # the tools may have changed while there was no subscription
            await anyio.sleep(_LISTEN_SECONDS)

    async def _explain_refusal(self, error: MCPError) -> UpstreamError:
        """Make our error of a JSON-RPC error that came in place of an answer."""
        if error.code == wire.CONNECTION_CLOSED and self._stop.is_set():
            await self.over.wait()
            fault = self.fault or self._target.error("server_gone", "is not used any more")
            code = "server_gone" if fault.code == "server_unavailable" else fault.code
            hint = fault.hint or "The call may have had an effect. The next one connects anew."
            return UpstreamError(code, str(fault.args[0]), hint=hint)
        if error.code == TOO_LARGE:
            return self._target.error("answer_too_large", f"has sent an answer of {error.message}", ASK_FOR_LESS)
        if error.code == BAD_ANSWER:
            hint = "The call may have had an effect."
            return self._target.error("bad_answer", f"has sent an answer that can't be read: {error.message}", hint)
        if error.code == wire.HEADER_MISMATCH:
            self._changed.set()
        what = f"answers with the error {error.code}: {self._target.quote_output(error.message)}"
        return self._target.error("server_error", what)

    def _late(self) -> UpstreamError:
        what = f"has not listed its tools within {self._target.server.startup_seconds:g} s"
        hint = "A command that installs itself first may need longer: startup_seconds in the configuration."
        return self._target.error("server_unavailable", what, hint)

    def _fault(self, error: BaseException) -> UpstreamError:
        """Find out why the connection has ended, from the exception that ended it."""
        leaves = flatten_group(error)
        for leaf in leaves:
            if isinstance(leaf, UpstreamError):
                return leaf
        leaf = leaves[0]
        if isinstance(leaf, GloveportError):
            return UpstreamError("server_unavailable", str(leaf.args[0]), hint=leaf.hint)
        what = f"can't be spoken with: {type(leaf).__name__}: {self._target.quote_output(str(leaf))}"
        hint = "Look at its URL or its command, and whether it is an MCP server."
        return self._target.error("server_unavailable", what, hint)


def _was_answered(error: BaseException) -> bool:
    """Whether a server answered, but by another protocol."""
    return all(isinstance(leaf, MCPError) for leaf in flatten_group(error))


def _has_ended(error: BaseException) -> bool:
    """Whether the server was there, and has ended the connection itself."""
    return any(isinstance(leaf, UpstreamError) and leaf.code == "server_gone" for leaf in flatten_group(error))
