"""Accepts connections of the user who started the server and of root, and closes all others unread.

Connections are accepted in batches, with one look at the kernel's table of sockets for each batch. The event loop's own
method accepts them one by one, and stops for good after certain errors.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from typing import Final

import anyio

from gloveport.server.transports.peers import peer_uids

_AT_ONCE: Final = 64
_PAUSE_SECONDS: Final = 0.1
_WARNING_SECONDS: Final = 60.0  # anybody on this host can connect as often as they like

_log = logging.getLogger(__name__)


async def accept_connections(listener: socket.socket, make_protocol: Callable[[], asyncio.Protocol]) -> None:
    """Accept until cancelled. While no descriptor is left, connections wait in the kernel's queue."""
    loop, trusted = asyncio.get_running_loop(), {os.geteuid(), 0}
    next_warning = loop.time()
    while True:
        await anyio.wait_readable(listener)
        try:
            connections = accept_some(listener)
            uids = peer_uids(connections)
        except OSError as error:
            _log.warning("no connection can be accepted just now: %s", error.strerror)
            await anyio.sleep(_PAUSE_SECONDS)
            continue
        coroutines = []
        for connection, uid in zip(connections, uids, strict=True):
            if uid in trusted:
                coroutines.append(loop.connect_accepted_socket(make_protocol, connection))
                continue
            connection.close()
            if uid is not None and loop.time() >= next_warning:
                _log.warning(
                    "connections of uid %d are closed unread: only uid %d and root are served", uid, os.geteuid()
                )
                next_warning = loop.time() + _WARNING_SECONDS
        await asyncio.gather(*coroutines, return_exceptions=True)


def accept_some(listener: socket.socket) -> list[socket.socket]:
    """Accept the waiting connections, as far as there are descriptors for them.

    Raises:
        OSError: There is no descriptor even for the first.
    """
    connections: list[socket.socket] = []
    while len(connections) < _AT_ONCE:
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            break
        except OSError:
            if not connections:
                raise
            break
        connection.setblocking(False)  # noqa: FBT003 - its only argument
        connections.append(connection)
    return connections
