"""One server: connects on first use, lists its tools, calls them, disconnects.

All callers share one connection, and each waits for it no longer than its own time allows. No call is made twice. A
server that fails repeatedly is not tried for a while.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence

import anyio
import mcp_types as wire
from anyio.abc import TaskGroup

from gloveport.errors import UpstreamError
from gloveport.hub.connection.breaker import Breaker
from gloveport.hub.connection.link import MODES, ConnectionTarget, UpstreamConnection
from gloveport.hub.connection.wire import Connect
from gloveport.hub.definition import Definition
from gloveport.hub.server_state import ConnectionState
from gloveport.limits.admission import make_turns
from gloveport.model.hub import Server
from gloveport.model.json_value import JsonValue
from gloveport.policy.wording import quote_sent

_PROVEN_SECONDS = 60.0
"""A connection that has lasted so long counts as a success for the breaker, however it ended."""

_log = logging.getLogger(__name__)


class Upstream:
    """One server, connected on its first use, and again on the next use after the connection was lost."""

    def __init__(
        self,
        name: str,
        server: Server,
        connects: Sequence[Connect],
        *,
        tasks: TaskGroup,
        on_tools: Callable[[tuple[Definition, ...]], Awaitable[None]],
        clean: Callable[[str], str] = str,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        """Start nothing yet.

        Args:
            name: The operator's name of the server.
            server: The server's configuration.
            connects: The ways to connect, in the order in which to try them.
            tasks: Runs the task of a connection. When the group is cancelled, the connection closes, in bounded time.
            on_tools: Called with the tools when the server has listed them, and again when they have changed.
            clean: Removes secrets from the server's error messages.
            clock: A clock in seconds, for when to try again.
        """
        self._tasks, self._on_tools, self._clock = tasks, on_tools, clock
        self._target = ConnectionTarget(name=name, server=server, connects=connects, on_tools=self._offer, clean=clean)
        self._breaker = Breaker(clock=clock)
        self._turns = make_turns(server.concurrent_calls)
        self._modes: Sequence[str] = MODES
        self._link: UpstreamConnection | None = None
        self._logged = ""
        self._closed = False
        self.offered: tuple[Definition, ...] | None = None
        """The tools that the server listed last; None before the first listing."""

    @property
    def state(self) -> ConnectionState:
        """The state of the connection."""
        link = self._link
        if link is None or (link.over.is_set() and link.fault is None):
            return "idle"
        if not link.settled.is_set():
            return "connecting"
        return "ready" if link.usable else "failed"

    @property
    def error(self) -> str:
        """Why the connection has failed, short and printable; empty if it has not."""
        return str(self._link.fault.args[0]) if self._link and self._link.fault else ""

    async def tools(self) -> tuple[Definition, ...]:
        """List the server's tools. Connects first where necessary.

        Raises:
            UpstreamError: The server can't be connected to, or breaks the protocol.
        """
        await self._connect()
        return self.offered or ()

    async def call(
        self, tool: str, arguments: Mapping[str, JsonValue], permit: Callable[[], None] = lambda: None, run: str = ""
    ) -> wire.CallToolResult:
        """Call a tool, once. Waiting for a free place counts towards the call's time-out, connecting does not.

        Args:
            tool: The tool's name.
            arguments: The tool's arguments.
            permit: Raises if the tool may not be called any more. Called after all waiting: the server may have been
                connected again meanwhile, and offer another tool under this name.
            run: Whose call it is. Where calls wait for a free place, runs take turns.

        Returns:
            The tool's result, or its own error. Neither is checked against the tool's schema.

        Raises:
            UpstreamError: There is no answer; ``code`` is ``server_unavailable`` (nothing was called),
                ``tool_timeout``, ``server_gone``, ``answer_too_large`` (the call may have had an effect),
                ``server_error``, ``bad_answer`` or ``input_required``; or a code of the way to connect.
        """
        link = await self._connect()
        with anyio.move_on_after(self._target.server.call_seconds):
            async with self._turns.place(run):
                if not link.usable:
                    link = await self._connect()
                permit()
                return await self._request(link, tool, arguments)
        raise self._target.error(
            "tool_timeout",
            f"has not answered within {self._target.server.call_seconds:g} s",
            "It was told to stop, but the call may have had an effect.",
        )

    async def close(self) -> None:
        """Disconnect for good. Running calls fail."""
        self._closed = True
        if self._link is not None:
            self._link.let_go()
            await self._link.over.wait()

    async def _connect(self) -> UpstreamConnection:
        """Return a ready connection; all callers wait for the same one."""
        while True:
            link = self._link
            if link is None or link.over.is_set():
                link = self._link = self._begin()
            if link.usable or await link.ready():
                return link

    def _begin(self) -> UpstreamConnection:
        if self._closed:
            hint = "The configuration was changed; try again."
            raise self._target.error("server_unavailable", "is not used any more", hint)
        if not self._breaker.admit():
            raise UpstreamError(
                "server_unavailable",
                f"The server {quote_sent(self._target.name)} has failed {self._breaker.failures} times in a row. "
                f"{self.error}",
                hint=f"It is tried again in {math.ceil(self._breaker.wait)} s.",
            )
        link = UpstreamConnection(self._target, self._modes)
        self._tasks.start_soon(self._own, link)
        return link

    async def _own(self, link: UpstreamConnection) -> None:
        """Run a connection until it is closed; then report its outcome to the breaker and the log."""
        began = self._clock()
        await link.run()
        if link.mode is not None:
            self._modes = (link.mode,)
        if link.fault is None or self._closed:
            self._breaker.give_up()
            return
        if self._logged != (message := str(link.fault.args[0])):  # a repeated failure is logged once
            self._logged = message
            _log.warning("%s", message)
        is_caller_at_fault = link.fault.code == "answer_too_large"  # a caller may ask for that as often as it likes
        if link.was_ready and (is_caller_at_fault or self._clock() - began >= _PROVEN_SECONDS):
            self._breaker.succeed()
        self._breaker.fail()

    async def _offer(self, tools: tuple[Definition, ...]) -> None:
        if tools != self.offered:
            await self._on_tools(tools)
            self.offered = tools  # only now: if ``on_tools`` failed, the next listing calls it again

    async def _request(
        self, link: UpstreamConnection, tool: str, arguments: Mapping[str, JsonValue]
    ) -> wire.CallToolResult:
        try:
            result = await link.request(tool, arguments)
        except UpstreamError:
            if link.usable:  # an error is an answer too: the server is there
                self._breaker.succeed()
            raise
        self._breaker.succeed()
        return result
