"""Serves clients over streamable HTTP, on the loopback interface alone, to the user who started it and to root.

The SDK refuses a foreign Host or Origin header, so no web page reaches this port by a name of its own (DNS rebinding).
Another user's connection is dropped before a byte of it is read.
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable
from signal import Signals
from typing import Any, cast

import uvicorn
from mcp.server import MCPServer
from uvicorn.protocols.http.h11_impl import H11Protocol

from gloveport.errors import ConfigError
from gloveport.server.peers import peer_uid
from gloveport.server.signals import on_end_signal

HOST = "127.0.0.1"
_PATH = "/mcp"
_GRACE_SECONDS = 1
_MOST_CONNECTIONS = 256
_MOST_SESSIONS = 64
_REQUEST_SECONDS = 10
_ESCAPED = 6  # most bytes of JSON that one byte of a program becomes
_REST_BYTES = 64 * 1024  # most of a request besides its program


class _Connection(H11Protocol):
    """One connection: of somebody who may have it, one of a bounded number, and with a request on it soon."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take it, or drop it unread."""
        connection = cast("asyncio.Transport", transport)
        uid = peer_uid(connection.get_extra_info("peername"), connection.get_extra_info("sockname"))
        if uid not in {os.geteuid(), 0} or len(self.connections) >= _MOST_CONNECTIONS:
            connection.abort()
            return
        super().connection_made(connection)
        self._deadline = self.loop.call_later(_REQUEST_SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tidy up after one that was taken."""
        if self._deadline is not None:
            self._deadline.cancel()
            super().connection_lost(exc)

    def _give_up(self) -> None:
        if self.cycle is None:
            self.transport.abort()  # type: ignore[unreachable]  # uvicorn declares it as never None


async def serve_http(
    server: MCPServer[Any], port: int, *, code_bytes: int, ready: Callable[[str], None]
) -> list[Signals]:
    """Serve until a signal comes; return the signals.

    Args:
        server: What to serve.
        port: 0 takes any that is free.
        code_bytes: The largest program that can be asked for.
        ready: Called with the address once connections are taken.

    Raises:
        ConfigError: The port can't be had.
    """
    with _listen(port) as listener:
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it reports each connection it could not take
        web = uvicorn.Server(
            uvicorn.Config(
                server.streamable_http_app(
                    host=HOST,
                    streamable_http_path=_PATH,
                    max_sessions=_MOST_SESSIONS,
                    max_request_body_size=_ESCAPED * code_bytes + _REST_BYTES,
                ),
                http=_Connection,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # a header is no address
                ws="none",
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )

        def stop() -> None:
            logging.disable(logging.ERROR)  # to cut off connections is routine now, and each would be reported
            web.should_exit = True

        with on_end_signal(stop) as came:
            ready(f"http://{HOST}:{listener.getsockname()[1]}{_PATH}")
            await web.serve(sockets=[listener])
    return came


def _listen(port: int) -> socket.socket:
    try:
        listener = socket.create_server((HOST, port))
    except OSError as error:
        reason = "it is in use" if error.errno == errno.EADDRINUSE else (error.strerror or str(error))
        raise ConfigError(f"can't listen on port {port} of {HOST}: {reason}", hint="choose another --port") from error
    # Connections inherit it. An answer is several small writes, and each would wait up to 40 ms for the one before it.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
