"""The hub of all upstream servers: which tools they offer, which of these are accepted, and calls of them.

A server is started on its first use. Only definitions of tools that were accepted count; a tool that is new or has
changed is held back and reported, until a person has accepted it. A dead, slow or lying server delays only those who
wait for it.
"""

import contextlib
import functools
import logging
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import anyio

from gloveport.errors import ConfigError, Denied, UpstreamError
from gloveport.fairness import compute
from gloveport.hub.definition import Definition
from gloveport.hub.ledger import Ledger
from gloveport.hub.names import exposed_names
from gloveport.hub.pins import Pins, compare, identity_of
from gloveport.hub.server_state import Clean, Connect, Record, ServerState
from gloveport.late_module import late_module
from gloveport.limits.bucket import Bucket
from gloveport.model.hub import Server
from gloveport.model.json_value import JsonValue
from gloveport.model.reading import read_value
from gloveport.task_group import open_task_group

if TYPE_CHECKING:
    import mcp_types as wire

    from gloveport.hub import catalog
    from gloveport.secrets import scrub
else:
    scrub = late_module("gloveport.secrets.scrub")
    catalog = late_module("gloveport.hub.catalog")

_MINUTE_SECONDS = 60.0
_FEW_SHARE = 10
"""A run that has made no more than this part of a minute's calls waits for its call, for a short time, where another
run has used up all of them."""

_FEW_SECONDS = 5.0
_LEAVING_SECONDS = 8.0
_OFFER_BYTES = 2 << 20
"""The most that a server may offer, for ``compute``: scrubbing, comparing and indexing it takes most of a second."""
_LATE = "it has not answered yet; search again in a while"

_log = logging.getLogger(__name__)


class Hub:
    """The upstream servers of one configuration. Made by ``open_hub``."""

    def __init__(self, states: Mapping[str, ServerState], pins: Pins, record: Record, clean: Clean) -> None:
        """A server may put its own secret into a tool's description, which is stored: ``clean`` removes it."""
        self.states = states
        if states:  # before any thread asks for it
            self.catalog  # noqa: B018
        self._pins, self._record, self._clean = pins, record, clean

    @cached_property
    def catalog(self) -> "catalog.Catalog":
        """The index of all tools of all servers."""
        return catalog.Catalog()

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The own name of each server, by its name in programs."""
        return {state.exposed: name for name, state in self.states.items()}

    async def discover(self, servers: Sequence[str], seconds: float) -> dict[str, str]:
        """List the tools of these servers where they are not known yet, concurrently, within so many seconds.

        A server that is still connecting after an earlier search has waited for it in vain is not waited for again.
        Returns, by the name of a server whose tools are still not known, why not.
        """
        for name in servers:
            await self._reload_accepted(name)
        missing = {name: _LATE for name in servers if not self.states[name].tools_known}
        awaited = [name for name in missing if not self._is_late(name)]

        async def ask(name: str) -> None:
            try:
                await self.states[name].upstream.tools()
            except UpstreamError as error:
                missing[name] = self._clean(str(error.args[0]))
            else:
                del missing[name]

        if awaited:
            with anyio.move_on_after(seconds):
                async with anyio.create_task_group() as tasks:
                    for name in awaited:
                        tasks.start_soon(ask, name)
        for name in awaited:
            self.states[name].late = missing.get(name) == _LATE
        return missing

    def _is_late(self, name: str) -> bool:
        return self.states[name].late and self.states[name].upstream.state == "connecting"

    async def find(self, server: str, tool: str) -> Definition | None:
        """Find the current tool of this name. Connects to the server first where necessary.

        Raises:
            Denied: The tool is held back.
            UpstreamError: The server can't be reached.
        """
        state = self.states[server]
        await state.upstream.tools()
        name = tool if tool in state.tools or tool in state.hold_reasons else state.names.get(tool, tool)
        if name in state.hold_reasons:
            await self._reload_accepted(server)
        if name in state.hold_reasons:
            raise self._held_back_error(server, name)
        return state.tools.get(name)

    async def call(
        self, definition: Definition, arguments: Mapping[str, JsonValue], sent: int, ledger: Ledger
    ) -> "wire.CallToolResult":
        """Call a tool, whose ``definition`` is that of when the call was decided. ``sent`` is the size of the arguments
        in bytes, ``ledger`` that of the run.

        Raises:
            Denied: The tool is held back by now, or the server's budget of this minute is used up.
            UpstreamError: There is no answer.
        """
        state = self.states[definition.server]
        self._require_present(definition)
        if wait := state.times.take():
            if ledger.total > state.times.capacity // _FEW_SHARE or wait > _FEW_SECONDS:
                count = state.server.calls_per_minute
                raise Denied(
                    "too_many_calls_a_minute",
                    f"The server {definition.server!a} is called {count} times a minute at most.",
                    hint=f"Wait {math.ceil(wait)} s, or ask for more at once.",
                )
            state.times.owe(1)  # before the wait, or a run that calls without end would always be faster
            await anyio.sleep(wait)
        if wait := state.bytes.take(sent):
            most = int(state.server.bytes_per_minute)
            raise Denied(
                "too_many_bytes_a_minute",
                f"The calls of the server {definition.server!a} send and bring {most} bytes a minute at most.",
                hint=f"Wait {math.ceil(wait)} s, and ask for less.",
            )
        permit = functools.partial(self._require_present, definition)
        return await state.upstream.call(definition.name, arguments, permit, ledger.run)

    def account(self, server: str, size: int) -> None:
        """Charge the bytes of a result to the server's budget."""
        self.states[server].bytes.owe(size)

    def _require_present(self, definition: Definition) -> None:
        """Refuse a tool that has changed since the call was decided: a person may have taken an hour to approve it."""
        present = self.states[definition.server].tools.get(definition.name)
        if present is None or present.digest != definition.digest:
            raise self._held_back_error(definition.server, definition.name)

    def load_pins(self, name: str) -> None:
        """Load the accepted tools of a server, which count as its offer until it lists its tools.

        A server without any accepted from this command or URL counts as unknown, so that a search asks it: else nobody
        would ever be told which tools are held back.
        """
        state = self.states[name]
        try:
            accepted = self._pins.load(name, identity_of(state.server))
        except ConfigError as error:
            _log.warning("%s", error)
            return
        if accepted:
            names = self._index(state, name, accepted)
            self._show(state, name, accepted, names, {})

    async def _reload_accepted(self, name: str) -> None:
        """Take in what another process has accepted meanwhile, if the file of the accepted tools has changed."""
        state = self.states[name]
        if state.hold_reasons and state.upstream.offered is not None and self._stamp(name) != state.pins_stamp:
            await self.on_tools_listed(name, state.upstream.offered)

    def _stamp(self, name: str) -> tuple[int, int] | None:
        try:
            status = self._pins.path(name).lstat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns  # each write replaces the file, so its inode changes

    def _held_back_error(self, server: str, tool: str) -> Denied:
        why = self.states[server].hold_reasons.get(tool, "no longer what was to be called")
        return Denied(
            "tool_held_back",
            f"The tool {tool!a} of the server {server!a} is held back: it is {why}.",
            hint=f"The owner has to look at it: gloveport servers review {server}. Retrying does not help.",
        )

    async def on_tools_listed(self, name: str, offered: tuple[Definition, ...]) -> None:
        """Take in the tools that a server has just listed. Until that is done, its former ones count."""
        with anyio.CancelScope(shield=True):  # a cancel must not come between accepting tools and auditing that
            async with self.states[name].turn:
                await self._publish_offer(name, offered)

    async def _publish_offer(self, name: str, offered: tuple[Definition, ...]) -> None:
        state, identity = self.states[name], identity_of(self.states[name].server)
        offered = await compute(_OFFER_BYTES, self._scrub_offer, offered)
        try:
            accepted = await compute(_OFFER_BYTES, self._pins.load, name, identity)
            if accepted is None:
                await compute(_OFFER_BYTES, self._pins.accept_all, name, identity, offered)
                first: JsonValue = {tool.name: tool.digest for tool in offered}
                self._record("server.tools_accepted", {"server": name, "first_sight": True, "tools": first})
                accepted = offered
            offer = await compute(_OFFER_BYTES, compare, accepted, offered)
            new = "new" if accepted else "offered by another command or URL than what was accepted"
            hold_reasons = {tool.name: new for tool in offer.new} | {tool.name: "changed" for tool in offer.changed}
            digests = {tool.name: tool.digest for tool in (*offer.new, *offer.changed)}
            is_reported = digests == state.reported  # digests and not names: a tool may have changed once more
            if hold_reasons and not is_reported and state.reports.take() == 0:
                is_reported = True  # else with the next listing
                await compute(_OFFER_BYTES, self._pins.hold, name, identity, offered)
                self._record("server.tools_held_back", {"server": name, "tools": dict(hold_reasons)})
                _log.warning(
                    "server %s: %d of its tools are new or changed and held back; see: gloveport servers review %s",
                    name,
                    len(hold_reasons),
                    name,
                )
        except BaseException as error:  # the pins can't be read or written: then no tool counts as accepted
            unknown = {tool.name: "not known to be accepted" for tool in offered}
            self._show(state, name, (), await compute(_OFFER_BYTES, self._index, state, name, ()), unknown)
            if not isinstance(error, ConfigError):
                raise
            _log.error("%s", error)
            return
        names = await compute(_OFFER_BYTES, self._index, state, name, offer.unchanged)
        if is_reported or not hold_reasons:
            state.reported = digests
        self._show(state, name, offer.unchanged, names, hold_reasons)

    def _scrub_offer(self, offered: Sequence[Definition]) -> tuple[Definition, ...]:
        """Remove secrets from the definitions, and compute their digests."""
        clean = tuple(map(self._without_secrets, offered))
        for tool in clean:
            _ = tool.digest
        return clean

    def _without_secrets(self, tool: Definition) -> Definition:
        fields = tool.model_dump(mode="json")
        clean = scrub.scrub_value(fields, self._clean)
        return tool if clean == fields else read_value(Definition, clean)

    def _index(self, state: ServerState, name: str, tools: Sequence[Definition]) -> dict[str, str]:
        """Index the tools for searches; return their own names by their names in programs. Thread-safe."""
        self.catalog.replace(name, state.server.description, tools)
        return exposed_names(tool.name for tool in tools)

    def _show(
        self,
        state: ServerState,
        name: str,
        tools: Sequence[Definition],
        names: dict[str, str],
        hold_reasons: Mapping[str, str],
    ) -> None:
        state.tools = {tool.name: tool for tool in tools}
        state.names = names
        state.hold_reasons = dict(hold_reasons)
        state.tools_known, state.pins_stamp = True, self._stamp(name)


@contextlib.asynccontextmanager
async def open_hub(
    servers: Mapping[str, Server],
    *,
    pins: Pins,
    connect: Connect,
    record: Record,
    clean: Clean,
) -> AsyncIterator[Hub]:
    """Open the hub to these servers, with their accepted tools loaded; inactive ones are skipped. Leaving the context
    disconnects all.
    """
    active = {name: server for name, server in servers.items() if server.active}
    states: dict[str, ServerState] = {}
    hub = Hub(states, pins, record, clean)
    async with open_task_group() as tasks:
        for exposed, name in exposed_names(active).items():
            server, on_tools = active[name], functools.partial(hub.on_tools_listed, name)
            states[name] = ServerState(
                server=server,
                exposed=exposed,
                upstream=connect(name, server, tasks, on_tools),
                times=Bucket(capacity=server.calls_per_minute, seconds=_MINUTE_SECONDS),
                bytes=Bucket(capacity=server.bytes_per_minute, seconds=_MINUTE_SECONDS),
            )
            hub.load_pins(name)
        try:
            yield hub
        finally:
            with anyio.move_on_after(_LEAVING_SECONDS, shield=True):  # time to end sessions that a server keeps
                async with anyio.create_task_group() as leaving:
                    for state in states.values():
                        leaving.start_soon(state.upstream.close)
