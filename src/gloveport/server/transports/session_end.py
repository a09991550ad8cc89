"""Ends the sessions of programs whose client's MCP session over HTTP has ended."""

from collections.abc import Callable

import anyio

from gloveport.engine.sessions import Sessions

_LOOK_SECONDS = 1.0


async def end_sessions_of_gone_clients(sessions: Sessions, is_open: Callable[[str], bool]) -> None:
    """Look regularly for ended MCP sessions, until cancelled.

    Args:
        sessions: The sessions of programs, of all clients.
        is_open: Whether the MCP session of this id is open. Owners without such an id, whose protocol has no sessions,
            never end.
    """
    seen: set[str] = set()
    while True:
        await anyio.sleep(_LOOK_SECONDS)
        owners = {session.owner for session in sessions.alive()}
        seen |= {owner for owner in owners if is_open(owner)}
        for owner in owners & seen:
            if not is_open(owner):
                await sessions.end_of(owner, "its client has closed the connection")
        seen &= owners
