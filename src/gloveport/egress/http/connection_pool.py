"""Pools connections to servers: kept between requests, shared by executions.

A connection is kept for its route and for nothing else: one that was allowed, resolved and verified under other terms
is another. One that may be somebody's is not kept. What may have been done by a server is not sent a second time,
unless doing it twice is the same.
"""

import contextlib
import re
import time
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskGroup

from gloveport.egress.http.client import Body, ClientConnection, Response, UnansweredError
from gloveport.egress.http.heads import Headers, Outbound
from gloveport.egress.http.upstream_proxy import UpstreamProxy
from gloveport.egress.transport.dial import Dialer, Resolve
from gloveport.egress.transport.route import Route
from gloveport.errors import UpstreamError

IDLE_SECONDS = 30.0
IDLE_OF_ROUTE = 8
IDLE_IN_ALL = 64
POST_SECONDS = 30.0
POST_BYTES = 1 << 20
"""Of an answer to ``post``."""

_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"})
_OF_CONNECTION = re.compile(rb"(?:^|[\s,])(?:ntlm|negotiate)(?![^\s,])", re.IGNORECASE)
"""Schemes that authenticate the connection instead of the request: whoever is next on it would be taken for the one
before. Such a one is not kept, so NTLM, which needs three requests on one, does not work."""

_WEBSOCKET: Headers = ((b"connection", b"Upgrade"), (b"upgrade", b"websocket"))


class ConnectionPool:
    """Connections to all servers. A context; leaving it closes them.

    Attributes:
        dialer: Opens those that the pool does not keep.

    Args:
        resolve: Instead of what the host's own resolver says.
        idle_seconds: How long a connection is kept that carries nothing.
        proxy: Through which it goes where that serves the route.
    """

    def __init__(
        self,
        resolve: Resolve | None = None,
        idle_seconds: float = IDLE_SECONDS,
        proxy: UpstreamProxy | None = None,
    ) -> None:
        self.dialer = Dialer(resolve)
        self._proxy = proxy
        self._idle_seconds = idle_seconds
        self._idle: list[ClientConnection] = []  # few: the one that has been idle longest is the first
        self._tasks: TaskGroup

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._sweep)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._idle:
            connection.close()
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)

    @contextlib.asynccontextmanager
    async def exchange(
        self, route: Route, out: Outbound, body: Body, *, length: int | None = None
    ) -> AsyncIterator[Response]:
        """Send a request. The context begins with the head of the answer; leaving it gives up what has not come.

        Redirects are answers like others.

        Args:
            route: Where to.
            out: Its head.
            body: All of it, or piece by piece: then it is read in another task, until the context is left.
            length: Of a body that comes piece by piece, in bytes, where it is known.

        Raises:
            UpstreamError: ``name_not_found``, ``address_refused``, ``upstream_unreachable``, ``upstream_timeout``,
                ``tls_failed``, ``bad_request``, ``bad_response`` or ``upstream_broke_off``.
        """
        connection, response = await self._send(route, out, body, length)
        try:
            yield response
        finally:
            if await response.end():
                self._keep(connection, out, response)

    @contextlib.asynccontextmanager
    async def open_websocket(self, route: Route, out: Outbound) -> AsyncIterator[Response]:
        """Ask for an upgrade to WebSocket, on a connection of its own, which the context closes.

        Raises:
            UpstreamError: As ``exchange``.
        """
        with contextlib.closing(await self._dial(route)) as connection:
            yield await connection.exchange(self._tasks, out, None, None, _WEBSOCKET)

    async def post(self, route: Route, out: Outbound, body: bytes) -> tuple[int, Headers, bytes]:
        """Send a small request on a connection of its own, and give status, headers and body of its answer.

        Raises:
            UpstreamError: As ``exchange``, or ``upstream_timeout`` when it takes more than 30 s in all.
        """
        try:
            with anyio.fail_after(POST_SECONDS), contextlib.closing(await self._dial(route)) as connection:
                response = await connection.exchange(self._tasks, out, body, None)
                try:
                    return response.status, response.headers, await _read_whole(response, route)
                finally:
                    await response.end()
        except TimeoutError as error:
            message = f"{route.host} took more than {POST_SECONDS:.0f} s to answer."
            raise UpstreamError("upstream_timeout", message) from error

    async def _send(
        self, route: Route, out: Outbound, body: Body, length: int | None
    ) -> tuple[ClientConnection, Response]:
        """Send a request on some connection: once more on a fresh one, where that does nothing twice."""
        connection = self._take(route) or await self._dial(route)
        repeatable = connection.used and out.method in _IDEMPOTENT and (body is None or isinstance(body, bytes))
        try:
            return connection, await connection.exchange(self._tasks, out, body, length)
        except UnansweredError:
            if not repeatable:
                raise
        connection = await self._dial(route)
        return connection, await connection.exchange(self._tasks, out, body, length)

    async def _dial(self, route: Route) -> ClientConnection:
        if self._proxy is not None and self._proxy.serves(route):
            return ClientConnection(await self._proxy.open(self.dialer, route), route)
        return ClientConnection(await self.dialer.dial(route), route)

    def _take(self, route: Route) -> ClientConnection | None:
        """Give a connection that is known to be good: the one used last, for it is the likeliest to live."""
        for connection in reversed([known for known in self._idle if known.route == route]):
            self._idle.remove(connection)
            if connection.is_ready():
                return connection
            connection.close()
        return None

    def _keep(self, connection: ClientConnection, out: Outbound, response: Response) -> None:
        """Keep it for others; where there are too many the one goes that has been idle longest."""
        if _authenticates(b"authorization", out.headers) or _authenticates(b"www-authenticate", response.headers):
            connection.close()
            return
        connection.idle_since = time.monotonic()
        self._idle.append(connection)
        peers = [known for known in self._idle if known.route == connection.route]
        if len(peers) > IDLE_OF_ROUTE or len(self._idle) > IDLE_IN_ALL:
            self._drop(peers[0] if len(peers) > IDLE_OF_ROUTE else self._idle[0])

    def _drop(self, connection: ClientConnection) -> None:
        self._idle.remove(connection)
        connection.close()

    async def _sweep(self) -> None:
        while True:
            await anyio.sleep(self._idle_seconds / 4)
            while self._idle and self._idle[0].idle_since < time.monotonic() - self._idle_seconds:
                self._drop(self._idle[0])


def _authenticates(name: bytes, headers: Headers) -> bool:
    """Whether a header of this name has to do with the connection itself."""
    return any(said == name and _OF_CONNECTION.search(value) is not None for said, value in headers)


async def _read_whole(response: Response, route: Route) -> bytes:
    content = bytearray()
    async for piece in response:
        content += piece
        if len(content) > POST_BYTES:
            raise UpstreamError("bad_response", f"The answer of {route.host} is larger than 1 MiB.")
    return bytes(content)
