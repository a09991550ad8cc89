"""Ends the sessions of programs whose client's MCP session over HTTP has ended."""

from collections.abc import Callable

import anyio

from gloveport.engine.sessions import Sessions

_LOOK_SECONDS = 1.0


async def end_sessions_of_gone_clients(sessions: Sessions, is_gone: Callable[[str], bool]) -> None:
    """Look regularly for ended MCP sessions, until cancelled.

    Args:
        sessions: The sessions of programs, of all clients.
        is_gone: Whether an owner was an MCP session that has ended.
    """
    while True:
        await anyio.sleep(_LOOK_SECONDS)
        for owner in {session.owner for session in sessions.alive()}:
            if is_gone(owner):
                await sessions.end_of(owner, "its client has closed the connection")
