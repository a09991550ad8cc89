"""Serves clients over streamable HTTP, only on the loopback interface, only to the user who started it and to root.

The SDK refuses a foreign Host header, so no web page reaches this port by its own name (DNS rebinding), and every
Origin but our own: also that of another port of this host, where a page that an agent has made may be open.
``web_pages`` refuses what a page sends whose origin is this port's.
Another user's connection is closed before a byte of it is read.
"""

import asyncio
import errno
import functools
import logging
import resource
import socket
from collections.abc import Callable
from signal import Signals
from typing import Any, cast

import h11
import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from gloveport.engine.runs import Runs
from gloveport.engine.sessions import Sessions
from gloveport.errors import ConfigError
from gloveport.model import Limits
from gloveport.server.process.signals import on_end_signal
from gloveport.server.request_caller import has_session
from gloveport.server.transports.acceptor import accept_connections
from gloveport.server.transports.message_limit import MessageLimit
from gloveport.server.transports.overload import RequestLimit
from gloveport.server.transports.paced_parsing import PacedParsing, ParsingTurns
from gloveport.server.transports.peers import require_own_uid
from gloveport.server.transports.session_end import SESSION_SECONDS, end_work_of_gone_clients, free_places
from gloveport.server.transports.sessionless import SessionlessRequests
from gloveport.server.transports.web_pages import WebPageRefusal
from gloveport.task_group import open_task_group

HOST = "127.0.0.1"
_NAMES = (HOST, "localhost", "[::1]")
_PATH = "/mcp"
_GRACE_SECONDS = 1
_MOST_CONNECTIONS = 1024
_MOST_WAITING = 4096  # the listen backlog
_MOST_SESSIONS = 64
_REQUEST_SECONDS = 10
_MOST_HEAD_BYTES = 64 * 1024
_ESCAPED = 6  # most bytes of JSON for one byte of a program
_ENCODED = 2  # most bytes of JSON for one byte of a file, as base64 or ordinary text
_REST_BYTES = 64 * 1024  # most bytes of a request besides program and files


class _Connection(H11Protocol):
    """One connection, with a deadline for the arrival of each request. Large or costly data is parsed in turns."""

    def __init__(self, *arguments: Any, turns: ParsingTurns) -> None:  # noqa: ANN401 - the class above knows them
        super().__init__(*arguments)
        self._parsing = PacedParsing(self, turns)

    _deadline: asyncio.TimerHandle | None = None
    quiet_since: float = 0.0
    """When the connection was opened, or its last answer was complete."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection; if there are too many, close a quiet one."""
        others = cast("set[_Connection]", self.connections)
        quiet = [one for one in others if one.is_quiet] if len(others) >= _most_connections() else []
        if quiet:
            min(quiet, key=lambda one: one.quiet_since).transport.abort()
        super().connection_made(cast("asyncio.Transport", transport))
        self.quiet_since = self.loop.time()
        self._await_request()

    @property
    def is_quiet(self) -> bool:
        """Whether there is no unanswered request with a complete head."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Parse received data, at once or later."""
        self._unset_keepalive_if_required()
        self._parsing.take(data)

    def parse(self, data: bytes) -> None:
        """See ``ReceivedDataParser``."""
        super().data_received(data)
        if self.conn.their_state in {h11.IDLE, h11.SEND_BODY}:
            self._await_request()
        else:
            self._cancel_deadline()

    def is_closing(self) -> bool:
        """See ``ReceivedDataParser``."""
        return self.transport.is_closing()

    def pause(self) -> None:
        """See ``ReceivedDataParser``."""
        self.transport.pause_reading()

    def resume(self) -> None:
        """See ``ReceivedDataParser``. Not if uvicorn has paused, too: then it will resume."""
        if not self.flow.read_paused:
            self.transport.resume_reading()

    def on_response_complete(self) -> None:
        """Go on with the next request."""
        self.quiet_since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tidy up."""
        self._cancel_deadline()
        super().connection_lost(exc)

    def _await_request(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(_REQUEST_SECONDS, self.transport.abort)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Server(uvicorn.Server):
    """Has its connections accepted by ``acceptor``."""

    _accepting: asyncio.Task[None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        await super().startup(sockets=[])
        (listener,) = sockets or []
        config, server_state = self.config, self.server_state
        make = functools.partial(_Connection, config, server_state, self.lifespan.state, turns=ParsingTurns())
        self._accepting = asyncio.create_task(accept_connections(listener, make))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more."""
        self._accepting.cancel()
        await asyncio.wait([self._accepting])
        await super().shutdown(sockets)


def _most_connections() -> int:
    """A share of our limit of descriptors: the rest is for the work of the requests."""
    return min(_MOST_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)


async def serve_http(
    server: MCPServer[Any],
    port: int,
    *,
    limits: Limits,
    ready: Callable[[str], None],
    program_sessions: Sessions,
    runs: Runs,
) -> list[Signals]:
    """Serve until a signal comes; return the signals. Port 0 is any free one; ``ready`` is called with the address once
    connections are accepted. Sessions of programs, and runs, end with their client's MCP session.

    Raises:
        ConfigError: The port is not available, or our user can't be told from others.
    """
    require_own_uid()
    with _listen(port) as listener:
        most_bytes = _ESCAPED * limits.code_bytes + _ENCODED * limits.input_bytes + _REST_BYTES
        own_port = listener.getsockname()[1]
        make = functools.partial(
            server.streamable_http_app,
            streamable_http_path=_PATH,
            max_request_body_size=most_bytes,
            transport_security=TransportSecuritySettings(
                allowed_hosts=[f"{name}:*" for name in _NAMES],  # of a forwarded port, too
                allowed_origins=[f"http://{name}:{own_port}" for name in _NAMES],
            ),
        )
        single = make(stateless_http=True, json_response=True)
        app = make(max_sessions=_MOST_SESSIONS, session_idle_timeout=SESSION_SECONDS)
        sessions = server.session_manager._server_instances  # noqa: SLF001 - the only way to learn which are open
        web = _Server(
            uvicorn.Config(
                WebPageRefusal(
                    app=RequestLimit(
                        app=MessageLimit(
                            app=SessionlessRequests(app=app, sessionless=single, most_bytes=most_bytes),
                            most_bytes=most_bytes,
                        ),
                        is_session=sessions.__contains__,
                    )
                ),
                http=_Connection,
                h11_max_incomplete_event_size=_MOST_HEAD_BYTES,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # X-Forwarded-For must not replace the peer's address
                ws="none",
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )

        def is_gone(owner: str) -> bool:
            return has_session(owner) and owner not in sessions

        def stop() -> None:
            logging.disable(logging.ERROR)  # each connection that is cut off from now on would be logged as an error
            web.should_exit = True

        with on_end_signal(stop) as signals:
            ready(f"http://{HOST}:{own_port}{_PATH}")
            async with single.router.lifespan_context(single), open_task_group() as tasks:
                tasks.start_soon(end_work_of_gone_clients, program_sessions, runs, is_gone)
                tasks.start_soon(free_places, sessions, _MOST_SESSIONS)
                await web.serve(sockets=[listener])
    return signals


def _listen(port: int) -> socket.socket:
    try:
        listener = socket.create_server((HOST, port))
    except OSError as error:
        reason = "it is in use" if error.errno == errno.EADDRINUSE else (error.strerror or str(error))
        raise ConfigError(f"can't listen on port {port} of {HOST}: {reason}", hint="choose another --port") from error
    listener.listen(_MOST_WAITING)
    listener.setblocking(False)  # noqa: FBT003 - its only argument
    # Connections inherit it. An answer is several small writes; Nagle's algorithm would delay each by up to 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
