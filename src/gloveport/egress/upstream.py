"""Connections to servers, kept between exchanges and shared by executions: which one carries a request.

A connection is kept for its route and for nothing else: one that was allowed, resolved and verified under other terms
is another. One that may be somebody's is not kept. What may have been done by a server is not sent a second time,
unless doing it twice is the same.
"""

import contextlib
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskGroup

from gloveport.egress.dial import Dialer, Resolve
from gloveport.egress.http1 import Body, Connection, Exchange, Unheard
from gloveport.egress.messages import Answer, Headers, Outbound, Route
from gloveport.egress.wire import Wire
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


class Upstreams:
    """All servers, seen from here. A context; leaving it closes everything.

    Args:
        resolve: Instead of what the host's own resolver says.
        idle_seconds: How long a connection is kept that carries nothing.
    """

    def __init__(self, resolve: Resolve | None = None, idle_seconds: float = IDLE_SECONDS) -> None:
        self._dialer = Dialer(resolve)
        self._idle_seconds = idle_seconds
        self._known: dict[Route, list[Connection]] = {}
        self._count = 0
        self._tasks: TaskGroup

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._sweep)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._all():
            self._drop(connection)
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)

    def exchange(
        self, route: Route, out: Outbound, body: Body, *, length: int | None = None
    ) -> AbstractAsyncContextManager[Answer]:
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
        return _Visit(self, route, out, body, length)

    @contextlib.asynccontextmanager
    async def open_websocket(self, route: Route, out: Outbound) -> AsyncIterator[Answer]:
        """Ask for an upgrade to WebSocket, on a connection of its own, which the context closes.

        Raises:
            UpstreamError: As ``exchange``.
        """
        connection = Connection(await self._dialer.dial(route), route)
        try:
            yield await connection.exchange(self._tasks, out, None, None, _WEBSOCKET)
        finally:
            connection.close()

    async def connect(self, route: Route) -> Wire:
        """Open a TCP connection, without TLS.

        Raises:
            UpstreamError: ``name_not_found``, ``address_refused``, ``upstream_unreachable`` or ``upstream_timeout``.
        """
        return await self._dialer.connect(route)

    async def secure(self, wire: Wire, route: Route, protocols: Sequence[str]) -> None:
        """Go on by TLS on a connection to a route, or close it.

        Raises:
            UpstreamError: ``tls_failed`` or ``upstream_timeout``.
        """
        await self._dialer.secure(wire, route, protocols)

    async def post(self, route: Route, out: Outbound, body: bytes) -> tuple[int, Headers, bytes]:
        """Send a small request on a connection of its own, and give status, headers and body of its answer.

        Raises:
            UpstreamError: As ``exchange``, or ``upstream_timeout`` when it takes more than 30 s in all.
        """
        try:
            with anyio.fail_after(POST_SECONDS):
                connection = await self._dial(route)
                try:
                    exchange = await connection.exchange(self._tasks, out, body, None)
                    try:
                        return exchange.status, exchange.headers, await _whole(exchange, route)
                    finally:
                        await exchange.end()
                finally:
                    self._drop(connection)
        except TimeoutError as error:
            message = f"{route.host} took more than {POST_SECONDS:.0f} s to answer."
            raise UpstreamError("upstream_timeout", message) from error

    async def begin(self, route: Route, out: Outbound, body: Body, length: int | None) -> tuple[Connection, Exchange]:
        """Send a request on some connection: once more on a fresh one, where that does nothing twice."""
        connection = self._take(route) or await self._dial(route)
        repeatable = body is None or isinstance(body, bytes)
        reused = connection.used
        try:
            return connection, await connection.exchange(self._tasks, out, body, length)
        except Unheard:
            if not (repeatable and reused and out.method in _IDEMPOTENT):
                raise
        connection = await self._dial(route)
        return connection, await connection.exchange(self._tasks, out, body, length)

    async def end(self, connection: Connection, out: Outbound, exchange: Exchange) -> None:
        """Leave an exchange, and keep its connection where it can carry another."""
        if await exchange.end():
            if _authenticates(b"authorization", out.headers) or _authenticates(b"www-authenticate", exchange.headers):
                connection.close()
                return
            connection.idle_since = time.monotonic()
            self._keep(connection)

    async def _dial(self, route: Route) -> Connection:
        return Connection(await self._dialer.dial(route), route)

    def _take(self, route: Route) -> Connection | None:
        """Give a connection that is known to be good: the one used last, for it is the likeliest to live."""
        for connection in reversed(self._known.get(route, ())):
            self._forget(connection)
            if connection.is_ready():
                return connection
            connection.close()
        return None

    def _keep(self, connection: Connection) -> None:
        """Keep it for others; where there are too many the one goes that has been idle longest."""
        peers = self._known.setdefault(connection.route, [])
        peers.append(connection)
        self._count += 1
        if len(peers) <= IDLE_OF_ROUTE and self._count <= IDLE_IN_ALL:
            return
        crowd = peers if len(peers) > IDLE_OF_ROUTE else self._all()
        idle = [
            (known.idle_since, known) for known in crowd if known.idle_since is not None and known is not connection
        ]
        if idle:
            self._drop(min(idle, key=lambda pair: pair[0])[1])

    def _forget(self, connection: Connection) -> None:
        peers = self._known.get(connection.route, [])
        if connection in peers:
            peers.remove(connection)
            self._count -= 1
            if not peers:
                del self._known[connection.route]

    def _drop(self, connection: Connection) -> None:
        self._forget(connection)
        connection.close()

    def _all(self) -> list[Connection]:
        return [connection for peers in self._known.values() for connection in peers]

    async def _sweep(self) -> None:
        while True:
            await anyio.sleep(self._idle_seconds / 4)
            oldest = time.monotonic() - self._idle_seconds
            for connection in self._all():
                if connection.idle_since is not None and connection.idle_since < oldest:
                    self._drop(connection)


class _Visit:
    """The context of one exchange. A class, because it is entered for every request."""

    __slots__ = ("_body", "_connection", "_exchange", "_length", "_out", "_route", "_upstreams")

    def __init__(self, upstreams: Upstreams, route: Route, out: Outbound, body: Body, length: int | None) -> None:
        self._upstreams = upstreams
        self._route = route
        self._out = out
        self._body = body
        self._length = length

    async def __aenter__(self) -> Answer:
        self._connection, self._exchange = await self._upstreams.begin(self._route, self._out, self._body, self._length)
        return self._exchange

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._upstreams.end(self._connection, self._out, self._exchange)


def _authenticates(name: bytes, headers: Headers) -> bool:
    """Whether a header of this name has to do with the connection itself."""
    return any(said == name and _OF_CONNECTION.search(value) is not None for said, value in headers)


async def _whole(exchange: Exchange, route: Route) -> bytes:
    content = bytearray()
    async for piece in exchange.body:
        content += piece
        if len(content) > POST_BYTES:
            raise UpstreamError("bad_response", f"The answer of {route.host} is larger than 1 MiB.")
    return bytes(content)
