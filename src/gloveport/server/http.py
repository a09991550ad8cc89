"""Serves clients over streamable HTTP, on the loopback interface alone.

The SDK refuses a foreign Host or Origin header, so no web page reaches this port by a name of its own (DNS rebinding).
"""

import errno
import logging
import socket
from collections.abc import Callable
from signal import Signals
from typing import Any

import uvicorn
from mcp.server import MCPServer

from gloveport.errors import ConfigError
from gloveport.server.signals import on_end_signal

HOST = "127.0.0.1"
_PATH = "/mcp"
_GRACE_SECONDS = 1


async def serve_http(server: MCPServer[Any], port: int, *, ready: Callable[[str], None]) -> list[Signals]:
    """Serve until a signal comes; return the signals.

    Args:
        server: What to serve.
        port: 0 takes any that is free.
        ready: Called with the address once connections are taken.

    Raises:
        ConfigError: The port can't be had.
    """
    with _listen(port) as listener:
        web = uvicorn.Server(
            uvicorn.Config(
                server.streamable_http_app(host=HOST, streamable_http_path=_PATH),
                log_config=None,
                access_log=False,
                server_header=False,
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
        return socket.create_server((HOST, port))
    except OSError as error:
        reason = "it is in use" if error.errno == errno.EADDRINUSE else (error.strerror or str(error))
        raise ConfigError(f"can't listen on port {port} of {HOST}: {reason}", hint="choose another --port") from error
