"""Which sessions over HTTP end where there is no place for another."""

import math

import anyio
from mcp.server.streamable_http import StreamableHTTPServerTransport

from gloveport.server.transports.session_end import SESSION_SECONDS, end_quietest

NOW = 5000.0


def client(quiet_since: float) -> StreamableHTTPServerTransport:
    made = StreamableHTTPServerTransport("one", idle_timeout=SESSION_SECONDS)
    made.idle_scope = anyio.CancelScope(deadline=quiet_since + SESSION_SECONDS)
    return made


async def test_the_session_that_is_quiet_for_longest_gives_its_place_and_none_that_is_in_use():
    """P8: scripts that begin one for each call kept out everybody else for half an hour."""
    busy, new, quiet, quietest = (client(since) for since in (math.inf, NOW - 1, NOW - 100, NOW - 900))
    clients = [busy, new, quiet, quietest]
    end_quietest(clients, len(clients) + 1, NOW)
    for most, ended in ((4, [quietest]), (3, [quietest, quiet]), (2, [quietest, quiet])):
        end_quietest([one for one in clients if not one.idle_scope.cancel_called], most, NOW)
        assert [one for one in reversed(clients) if one.idle_scope.cancel_called] == ended
