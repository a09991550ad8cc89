"""One server: connects when somebody wants something of it, lists, calls, lets go.

Whoever waits, waits for the one connection, and no longer than they have time. No call is made twice. A server that
fails again and again is left alone for a while.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import anyio
import mcp_types as wire
from anyio.abc import TaskGroup

from gloveport.errors import UpstreamError
from gloveport.hub.connection.breaker import Breaker
from gloveport.hub.connection.link import MODES, Connect, ConnectionTarget, UpstreamConnection
from gloveport.hub.definition import Definition
from gloveport.model.hub import Server
from gloveport.model.json_value import JsonValue
from gloveport.policy.wording import quote_sent

__all__ = ["Connect", "State", "Upstream"]

State: TypeAlias = Literal["idle", "connecting", "ready", "failed"]

_PROVEN_SECONDS = 60.0
"""A connection that has lasted so long was a success, whatever its end."""

_log = logging.getLogger(__name__)


class Upstream:
    """One server, connected from its first use on, and again when it was lost and is wanted."""

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
        """Nothing is started yet.

        Args:
            name: What the operator calls it.
            server: What the operator says of it.
            connects: The ways to connect, in the order in which to try them.
            tasks: Where the task of a connection runs. When it is cancelled, all of this ends, in bounded time.
            on_tools: Told what the server offers when it has said so, and again when that has changed.
            clean: Takes secrets out of what the server says instead of an answer.
            clock: Seconds, for when to try again.
        """
        self._tasks, self._on_tools, self._clock = tasks, on_tools, clock
        self._target = ConnectionTarget(name=name, server=server, connects=connects, on_tools=self._offer, clean=clean)
        self._breaker = Breaker(clock=clock)
        self._places = anyio.Semaphore(server.concurrent_calls, fast_acquire=True)
        self._modes: Sequence[str] = MODES
        self._link: UpstreamConnection | None = None
        self._logged = ""
        self._closed = False
        self.offered: tuple[Definition, ...] | None = None
        """What the server has offered when it was last asked; None before that."""

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
        """List what the server offers. It is connected first where it is not.

        Raises:
            UpstreamError: It can't be connected, or breaks the protocol.
        """
        await self._connect()
        return self.offered or ()

    async def call(
        self, tool: str, arguments: Mapping[str, JsonValue], permit: Callable[[], None] = lambda: None
    ) -> wire.CallToolResult:
        """Call a tool, once. To wait for one of the places counts as time of the call, to connect does not.

        Args:
            tool: Its name.
            arguments: What it gets.
            permit: Raises where it may not be called any more. Asked when all waiting is over: a server may have been
                connected anew meanwhile, and offer something else.

        Returns:
            What the tool has answered, be it that it has failed. It is not compared with the tool's schema.

        Raises:
            UpstreamError: There is no answer; ``code`` is ``server_unavailable`` (nothing was called),
                ``tool_timeout``, ``server_gone``, ``answer_too_large`` (all three: it may have had an effect),
                ``server_error``, ``bad_answer`` or ``input_required``; or one that the way to connect has given.
        """
        link = await self._connect()
        with anyio.move_on_after(self._target.server.call_seconds):
            async with self._places:
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
        """Let go of the server for good. Calls that go on fail."""
        self._closed = True
        if self._link is not None:
            self._link.let_go()
            await self._link.over.wait()

    async def _connect(self) -> UpstreamConnection:
        """A connection that is ready. Who comes while one is being made waits for that."""
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
        """Run a connection, and draw the conclusions."""
        began = self._clock()
        await link.run()
        if link.mode is not None:
            self._modes = (link.mode,)
        if link.fault is None or self._closed:
            self._breaker.give_up()
            return
        if self._logged != (said := str(link.fault.args[0])):  # what goes on failing says it once
            self._logged = said
            _log.warning("%s", said)
        if link.was_ready and self._clock() - began >= _PROVEN_SECONDS:
            self._breaker.succeed()
        self._breaker.fail()

    async def _offer(self, tools: tuple[Definition, ...]) -> None:
        if tools != self.offered:
            await self._on_tools(tools)
            self.offered = tools  # only now: where that has failed, it is told again

    async def _request(
        self, link: UpstreamConnection, tool: str, arguments: Mapping[str, JsonValue]
    ) -> wire.CallToolResult:
        try:
            result = await link.request(tool, arguments)
        except UpstreamError:
            if link.usable:  # whatever it has answered, it is there
                self._breaker.succeed()
            raise
        self._breaker.succeed()
        return result
