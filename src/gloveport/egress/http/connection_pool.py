"""Pools connections to servers, which are kept between requests and shared by executions.

A connection is kept for its exact route and proxy: one that was allowed, resolved or verified on other terms is not
used. A connection that may be authenticated itself is not kept. A request that the server may have processed is not
sent again, unless it is idempotent.
"""

import contextlib
import re
import time
from collections.abc import AsyncIterator

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
"""Most bytes of an answer to ``post``."""

_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"})
_OF_CONNECTION = re.compile(rb"(?:^|[\s,])(?:ntlm|negotiate)(?![^\s,])", re.IGNORECASE)
"""Schemes that authenticate the connection instead of the request: the next request on it would be taken for one of the
same user. Such a connection is not kept, so NTLM, which needs three requests on one connection, does not work."""

_WEBSOCKET: Headers = ((b"connection", b"Upgrade"), (b"upgrade", b"websocket"))


class ConnectionPool:
    """Connections to all servers.

    Attributes:
        dialer: Opens new connections.

    Args:
        tasks: Runs the pool's tasks; the end of its scope closes the idle connections.
        resolve: Resolves names instead of the host's own resolver.
        idle_seconds: How long an idle connection is kept.
        proxy: The upstream proxy for the routes that it serves.
    """

    def __init__(
        self,
        tasks: TaskGroup,
        resolve: Resolve | None = None,
        idle_seconds: float = IDLE_SECONDS,
        proxy: UpstreamProxy | None = None,
    ) -> None:
        self.dialer = Dialer(resolve)
        self._proxy = proxy
        self._idle_seconds = idle_seconds
        self._idle: list[ClientConnection] = []  # the one that has been idle longest is the first
        self._tasks = tasks
        tasks.start_soon(self._sweep)

    @contextlib.asynccontextmanager
    async def exchange(
        self, route: Route, out: Outbound, body: Body, *, length: int | None = None
    ) -> AsyncIterator[Response]:
        """Send a request; yield the response when its head has come. Leaving the context drops the rest of it.

        Redirects are not followed. Another task reads the pieces of a streamed body, whose ``length`` may be known,
        until the context is left.

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
        """Request an upgrade to WebSocket, on a new connection, which the context closes.

        Raises:
            UpstreamError: As ``exchange``.
        """
        with contextlib.closing(await self._dial(route)) as connection:
            yield await connection.exchange(self._tasks, out, None, None, _WEBSOCKET)

    async def post(self, route: Route, out: Outbound, body: bytes) -> tuple[int, Headers, bytes]:
        """Send a small request on a new connection; return status, headers and body of the response.

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
        """Send a request on a kept or new connection; again on a new one, if that can't do anything twice."""
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
        if self._proxy is not None and (proxy := self._proxy.settings_for(route)) is not None:
            return ClientConnection(await self._proxy.open(self.dialer, route), route, proxy)
        return ClientConnection(await self.dialer.dial(route), route)

    def _take(self, route: Route) -> ClientConnection | None:
        """Take a ready connection of this route, the one used last: it is the least likely to be closed soon.

        Raises:
            UpstreamError: ``tls_failed``: the authorities of the route can't be read any more.
        """
        proxy = None if self._proxy is None else self._proxy.settings_for(route)
        found = [idle for idle in self._idle if idle.route == route and idle.proxy == proxy]
        context = self.dialer.tls_context(route) if found and route.scheme == "https" else None
        for connection in reversed(found):
            self._idle.remove(connection)
            if connection.tls_context is context and connection.is_ready():
                return connection
            connection.close()
        return None

    def _keep(self, connection: ClientConnection, out: Outbound, response: Response) -> None:
        """Keep a connection; if there are too many, drop the one that has been idle longest."""
        if _authenticates(b"authorization", out.headers) or _authenticates(b"www-authenticate", response.headers):
            connection.close()
            return
        connection.idle_since = time.monotonic()
        self._idle.append(connection)
        peers = [idle for idle in self._idle if idle.route == connection.route]
        if len(peers) > IDLE_OF_ROUTE or len(self._idle) > IDLE_IN_ALL:
            self._drop(peers[0] if len(peers) > IDLE_OF_ROUTE else self._idle[0])

    def _drop(self, connection: ClientConnection) -> None:
        self._idle.remove(connection)
        connection.close()

    async def _sweep(self) -> None:
        try:
            while True:
                await anyio.sleep(self._idle_seconds / 4)
                while self._idle and self._idle[0].idle_since < time.monotonic() - self._idle_seconds:
                    self._drop(self._idle[0])
        finally:
            for connection in self._idle:
                connection.close()


def _authenticates(name: bytes, headers: Headers) -> bool:
    """Whether a header of this name authenticates the connection itself, as NTLM does."""
    return any(header == name and _OF_CONNECTION.search(value) is not None for header, value in headers)


async def _read_whole(response: Response, route: Route) -> bytes:
    content = bytearray()
    async for piece in response:
        content += piece
        if len(content) > POST_BYTES:
            raise UpstreamError("bad_response", f"The answer of {route.host} is larger than 1 MiB.")
    return bytes(content)
