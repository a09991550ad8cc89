"""One server: connected when somebody wants something of it, listed, called, let go of.

Each connection has one task that opens and closes it. Whoever waits, waits for that task, and no longer than they have
time; what goes wrong with a connection is told to all who waited for it. No call is made twice. Of the SDK's client no
more is used than the handshake and the frames: it checks answers against the server's own schemas, by regular
expressions that never end, on our event loop, and it lists all tools for that without bounds.
"""

import contextlib
import importlib.metadata
import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import anyio
import mcp_types as wire
from anyio.abc import TaskGroup
from mcp import Client
from mcp.client.session import ClientSession
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import JsonValue, TypeAdapter, ValidationError

from gloveport.errors import GloveportError, UpstreamError
from gloveport.hub.breaker import Breaker
from gloveport.hub.definition import Definition
from gloveport.hub.listing import Listing, list_tools
from gloveport.hub.wire import Reading, Wire, Writing
from gloveport.model.hub import Server
from gloveport.policy.wording import shown

Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[tuple[Reading, Writing]]]
State: TypeAlias = Literal["idle", "connecting", "ready", "failed"]

_CLOSE_SECONDS = 2.0
_PROVEN_SECONDS = 60.0
"""A connection that has lasted so long was a success, whatever its end."""

_RELIST_SECONDS, _RELIST_SHARE = 2.0, 20
"""Between two listings: so long, and so many times as long as the listing took."""

_LISTEN_SECONDS = 30.0
"""Until a subscription that was lost is asked for again."""

_SAID_CHARS = 400

_ANSWER: TypeAdapter[wire.CallToolResult | wire.InputRequiredResult] = TypeAdapter(
    wire.CallToolResult | wire.InputRequiredResult
)

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Link:
    """One connection, from the first attempt until nothing of it is left.

    Attributes:
        session: There from when its tools are known.
        settled: It is ready, or over.
        stop: It is to end, or has.
        over: Nothing of it is left.
        changed: The server has said that its tools have changed.
        fault: Why it is over; None when it was to end.
    """

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    session: ClientSession | None = None
    wire: Wire | None = None
    settled: anyio.Event = field(default_factory=anyio.Event)
    stop: anyio.Event = field(default_factory=anyio.Event)
    over: anyio.Event = field(default_factory=anyio.Event)
    changed: anyio.Event = field(default_factory=anyio.Event)
    fault: UpstreamError | None = None

    @property
    def usable(self) -> bool:
        return self.session is not None and not self.stop.is_set()

    def note_change(self) -> None:
        self.changed.set()

    def note_end(self) -> None:
        self.stop.set()


class Upstream:
    """One server, connected from its first use on, and again when it was lost and is wanted."""

    def __init__(
        self,
        name: str,
        server: Server,
        connects: Sequence[Connect],
        *,
        tasks: TaskGroup,
        on_tools: Callable[[tuple[Definition, ...]], None],
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        """Nothing is started yet.

        Args:
            name: What the operator calls it.
            server: What the operator says of it.
            connects: The ways to connect, in the order in which to try them.
            tasks: Where the task of a connection runs. When it is cancelled, all of this ends, in bounded time.
            on_tools: Told what the server offers when it has said so, and again when that has changed.
            clock: Seconds, for when to try again.
        """
        self._name, self._server, self._connects = name, server, connects
        self._tasks, self._on_tools, self._clock = tasks, on_tools, clock
        self._breaker = Breaker(clock=clock)
        self._places = anyio.Semaphore(server.concurrent_calls, fast_acquire=True)
        # There are servers that end when the first message is not the older handshake's.
        self._modes: tuple[str, ...] = ("auto", "legacy")
        self._link: _Link | None = None
        self._closed = False
        self.offered: tuple[Definition, ...] | None = None
        """What the server has offered when it was last asked; None before that."""
        self.server_info: wire.Implementation | None = None
        """What the server calls itself: hostile text."""

    @property
    def state(self) -> State:
        """Whether it is connected."""
        link = self._link
        if link is None or (link.over.is_set() and link.fault is None):
            return "idle"
        if not link.settled.is_set():
            return "connecting"
        return "ready" if link.usable else "failed"

    @property
    def error(self) -> str:
        """Why it has failed, in short, printable; empty where it has not."""
        return str(self._link.fault.args[0]) if self._link and self._link.fault else ""

    async def tools(self) -> tuple[Definition, ...]:
        """What the server offers. It is connected first where it is not.

        Raises:
            UpstreamError: It can't be connected, or breaks the protocol.
        """
        await self._connected()
        return self.offered or ()

    async def call(self, tool: str, arguments: Mapping[str, JsonValue]) -> wire.CallToolResult:
        """Call a tool, once. To wait for one of the places counts as time of the call, to connect does not.

        Returns:
            What the tool has answered, be it that it has failed. It is not compared with the tool's schema.

        Raises:
            UpstreamError: There is no answer; ``code`` is ``server_unavailable`` (nothing was called),
                ``tool_timeout``, ``server_gone``, ``answer_too_large`` (all three: it may have had an effect),
                ``server_error``, ``bad_answer`` or ``input_required``.
        """
        link = await self._connected()
        with anyio.move_on_after(self._server.call_seconds):
            async with self._places:
                if not link.usable:
                    link = await self._connected()
                return await self._request(link, tool, arguments)
        raise self._error(
            "tool_timeout",
            f"has not answered within {self._server.call_seconds:g} s",
            "It was told to stop, but the call may have had an effect.",
        )

    async def close(self) -> None:
        """Let go of the server for good. Calls that go on fail."""
        self._closed = True
        link = self._link
        if link is None:
            return
        if link.session is None:
            link.scope.cancel()
        link.stop.set()
        await link.over.wait()

    async def _connected(self) -> _Link:
        """A connection that is ready. Who comes while one is being made waits for that."""
        while True:
            link = self._link
            if link is None or link.over.is_set():
                link = self._link = self._begin()
            if link.usable:
                return link
            with anyio.CancelScope(deadline=link.scope.deadline):
                await link.settled.wait()
            if not link.settled.is_set():
                raise self._late()  # nobody waits until a server that does not answer has been ended
            if link.stop.is_set():
                await link.over.wait()
            if link.session is None:
                raise self._unavailable(link)

    def _begin(self) -> _Link:
        if self._closed:
            raise self._error("server_unavailable", "is not used any more", "The configuration was changed; try again.")
        if not self._breaker.admit():
            raise UpstreamError(
                "server_unavailable",
                f"The server {shown(self._name)} has failed {self._breaker.failures} times in a row. {self.error}",
                hint=f"It is tried again in {math.ceil(self._breaker.wait)} s.",
            )
        link = _Link()
        link.scope.deadline = anyio.current_time() + self._server.startup_seconds
        self._tasks.start_soon(self._own, link)
        return link

    async def _own(self, link: _Link) -> None:
        """Be the task of a connection: the SDK's client has to be left by the task that has entered it."""
        began = self._clock()
        try:
            with link.scope:
                await self._connect(link)
            if link.session is None and not self._closed:
                link.fault = self._late()
        except Exception as error:  # noqa: BLE001 - no fault of one server may end what belongs to others
            link.fault = self._fault(error)
        finally:
            self._account(link, self._clock() - began)
            link.stop.set()
            link.settled.set()
            link.over.set()

    def _account(self, link: _Link, lasted: float) -> None:
        if link.fault is None or self._closed:
            self._breaker.give_up()
            return
        _log.info("%s", link.fault.args[0])
        if link.session is not None and lasted >= _PROVEN_SECONDS:
            self._breaker.succeed()
        self._breaker.fail()

    async def _connect(self, link: _Link) -> None:
        first: Exception | None = None
        for connect in self._connects:
            for mode in self._modes:
                try:
                    await self._hold(link, connect, mode)
                except Exception as error:
                    if link.session is not None:
                        raise
                    first = first or error
                    if not _has_ended(error):
                        break
                else:
                    return
            if first is not None and not _was_answered(first):
                break  # to be reached by another way, it would have to be reached at all
        assert first is not None  # noqa: S101 - there is one way at least
        raise first

    async def _hold(self, link: _Link, connect: Connect, mode: str) -> None:
        link.stop = anyio.Event()
        ourselves = wire.Implementation(name="gloveport", version=importlib.metadata.version("gloveport"))
        async with Client(self._wired(link, connect), mode=mode, cache=None, client_info=ourselves) as client:
            listing = await list_tools(self._name, client, int(self._server.answer_bytes))
            self._modes = (mode,)
            self.server_info = client.server_info
            self._offer(link, listing)
            link.session = client.session
            link.scope.deadline = math.inf
            link.settled.set()
            await self._attend(link, client)
            link.scope.deadline = anyio.current_time() + _CLOSE_SECONDS
        if not self._closed:
            raise self._error("server_gone", "has ended the connection", "")

    @contextlib.asynccontextmanager
    async def _wired(self, link: _Link, connect: Connect) -> AsyncIterator[tuple[Wire, Wire]]:
        async with connect() as (reading, writing):
            link.wire = Wire(
                name=self._name,
                reading=reading,
                writing=writing,
                on_change=link.note_change,
                on_end=link.note_end,
            )
            yield link.wire, link.wire

    async def _attend(self, link: _Link, client: Client) -> None:
        """Do what a connection needs until it is to end, or has."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._relist, link, client)
            tools = client.server_capabilities.tools
            if tools and tools.list_changed and client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                tasks.start_soon(_listen, link, client)
            await link.stop.wait()
            tasks.cancel_scope.cancel()

    async def _relist(self, link: _Link, client: Client) -> None:
        """List the tools anew when the server says that they have changed, but seldom, however often it says so."""
        while True:
            await link.changed.wait()
            link.changed = anyio.Event()
            began = anyio.current_time()
            try:
                with anyio.fail_after(self._server.startup_seconds):
                    listing = await list_tools(self._name, client, int(self._server.answer_bytes))
            except (MCPError, TimeoutError):
                _log.info("server %s: its tools can't be listed anew; they stay as they were", self._name)
            else:
                self._offer(link, listing)
            await anyio.sleep(max(_RELIST_SECONDS, _RELIST_SHARE * (anyio.current_time() - began)))

    def _offer(self, link: _Link, listing: Listing) -> None:
        if link.wire is not None:
            link.wire.headers = listing.headers
        if listing.tools != self.offered:
            self.offered = listing.tools
            self._on_tools(listing.tools)

    async def _request(self, link: _Link, tool: str, arguments: Mapping[str, JsonValue]) -> wire.CallToolResult:
        assert link.session is not None  # noqa: S101 - it is usable
        params = wire.CallToolRequestParams(name=tool, arguments=dict(arguments))
        try:
            answer = await link.session.send_request(wire.CallToolRequest(params=params), _ANSWER)
        except MCPError as error:
            raise await self._refused(link, error) from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            what = f"has answered with what is no result of a tool: {_quoted(where)}: {_quoted(first['msg'])}"
            raise self._error("bad_answer", what, "") from error
        self._breaker.succeed()
        if isinstance(answer, wire.InputRequiredResult):
            hint = "Gloveport passes no questions of servers on."
            raise self._error("input_required", "asks back before it does anything", hint)
        return answer

    async def _refused(self, link: _Link, error: MCPError) -> UpstreamError:
        """What it means that there is an error in the place of an answer."""
        if error.code == wire.CONNECTION_CLOSED and link.stop.is_set():
            await link.over.wait()
            gone = link.fault or self._error("server_gone", "is not used any more", "")
            code = "server_gone" if gone.code == "server_unavailable" else gone.code
            hint = gone.hint or "The call may have had an effect. The next one connects anew."
            return UpstreamError(code, str(gone.args[0]), hint=hint)
        self._breaker.succeed()
        if error.code == wire.HEADER_MISMATCH:
            link.changed.set()
        return self._error("server_error", f"answers with the error {error.code}: {_quoted(error.message)}", "")

    def _late(self) -> UpstreamError:
        seconds = self._server.startup_seconds
        hint = "A command that installs itself first may need longer: startup_seconds in the configuration."
        return self._error("server_unavailable", f"has not listed its tools within {seconds:g} s", hint)

    def _unavailable(self, link: _Link) -> UpstreamError:
        fault = link.fault or self._error("server_unavailable", "is not used any more", "")
        code = "server_unavailable" if fault.code == "server_gone" else fault.code
        return UpstreamError(code, str(fault.args[0]), hint=fault.hint)

    def _fault(self, error: BaseException) -> UpstreamError:
        """Why a connection has ended, from what has come out of it."""
        leaves = list(_leaves(error))
        for leaf in leaves:
            if isinstance(leaf, UpstreamError):
                return leaf
        leaf = leaves[0]
        if isinstance(leaf, GloveportError):
            return UpstreamError("server_unavailable", str(leaf.args[0]), hint=leaf.hint)
        what = f"can't be spoken with: {type(leaf).__name__}: {_quoted(str(leaf))}"
        return self._error(
            "server_unavailable", what, "Look at its URL or its command, and whether it is an MCP server."
        )

    def _error(self, code: str, what: str, hint: str) -> UpstreamError:
        return UpstreamError(code, f"The server {shown(self._name)} {what}.", hint=hint)


async def _listen(link: _Link, client: Client) -> None:
    """Have the server say when its tools change; the wire hears it."""
    while True:
        with contextlib.suppress(MCPError, SubscriptionLost):
            async with client.listen(tools_list_changed=True) as subscription:
                async for _ in subscription:
                    pass
            link.changed.set()  # it may have changed meanwhile
        await anyio.sleep(_LISTEN_SECONDS)


def _was_answered(error: BaseException) -> bool:
    """Whether somebody was there, but speaks otherwise."""
    return all(isinstance(leaf, MCPError) for leaf in _leaves(error))


def _has_ended(error: BaseException) -> bool:
    return any(isinstance(leaf, UpstreamError) and leaf.code == "server_gone" for leaf in _leaves(error))


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]


def _quoted(text: str) -> str:
    """What a server has said, in printable characters, cut off where it is long."""
    return ascii(text if len(text) <= _SAID_CHARS else f"{text[:_SAID_CHARS]}…")
