"""Ends MCP sessions over HTTP that are silent while all places are taken, and what programs of ended ones do."""

from collections.abc import Callable, Collection, Mapping
from typing import Final

import anyio
from mcp.server.streamable_http import StreamableHTTPServerTransport

from gloveport.engine.runs import Runs
from gloveport.engine.sessions import Sessions

SESSION_SECONDS: Final = 1800.0
"""How long an MCP session stays without a request or an open stream."""

_QUIET_SECONDS: Final = 60.0
"""How long it stays where all places are taken: clients that never say goodbye would keep out all others."""

_LOOK_SECONDS: Final = 1.0


async def free_places(clients: Mapping[str, StreamableHTTPServerTransport], most: int) -> None:
    """Look regularly whether all places are taken, and free one then, until cancelled."""
    while True:
        await anyio.sleep(_LOOK_SECONDS)
        end_quietest([*clients.values()], most, anyio.current_time())


def end_quietest(clients: Collection[StreamableHTTPServerTransport], most: int, now: float) -> None:
    """Where there are as many MCP sessions as there may be, end the one that was without a request for longest, if that
    is long enough.
    """
    if len(clients) < most:
        return
    scopes = [client.idle_scope for client in clients if client.idle_scope is not None]
    quietest = min(scopes, key=lambda scope: scope.deadline, default=None)
    if quietest is not None and quietest.deadline <= now + SESSION_SECONDS - _QUIET_SECONDS:
        quietest.cancel()


async def end_work_of_gone_clients(sessions: Sessions, runs: Runs, is_gone: Callable[[str], bool]) -> None:
    """Look regularly for ended MCP sessions, until cancelled, and end their programs' sessions and their runs, which
    nobody can reach any more. ``is_gone`` tells whether an owner was an MCP session that has ended.
    """
    while True:
        await anyio.sleep(_LOOK_SECONDS)
        for run in runs.active():
            if is_gone(run.owner):
                run.cancel()
        for owner in {session.owner for session in sessions.alive()}:
            if is_gone(owner):
                await sessions.end_of(owner, "its client has closed the connection")
