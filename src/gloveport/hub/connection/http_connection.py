"""Connects to a server over HTTP: the SDK's transports over an HTTP client that bounds everything it receives.

The client reads no environment variable. The SDK follows redirects within the origin alone, so no credential leaves it.
"""

import contextlib
import functools
import ssl
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import TypeAlias

import anyio
import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from gloveport.errors import UpstreamError
from gloveport.forward_proxy.forward_proxy import ForwardProxy
from gloveport.forward_proxy.http_transport import ForwardedTransport
from gloveport.hub.connection.bounded_http import AfterFailure, BoundedTransport
from gloveport.hub.connection.wire import Reading, Writing
from gloveport.model.hub import Server
from gloveport.policy.wording import quote_sent

MakeTransport: TypeAlias = Callable[[httpx2.Limits], ForwardedTransport]

_SPARE_SECONDS = 2.0
"""How long after the longest time-out of a call an open request is closed."""

_MOST_CONNECTIONS, _KEPT_CONNECTIONS = 1100, 16
"""More connections than there can be concurrent calls, each of which takes one."""

_SSE_EVENT_BYTES = 1 << 20
"""The SDK's limit for an event in its older transport."""


@contextlib.asynccontextmanager
async def connect(
    name: str,
    server: Server,
    *,
    auth: httpx2.Auth | None,
    verify: ssl.SSLContext,
    proxy: ForwardProxy | None,
) -> AsyncIterator[tuple[Reading, Writing]]:
    """Connect by the server's transport, ``http`` or ``sse``; leaving the context disconnects. ``auth`` puts
    credentials on requests; ``verify`` has the trusted certificate authorities.

    Raises:
        UpstreamError: The server exceeds a bound, or wants other credentials.
    """
    transport, most = functools.partial(ForwardedTransport, verify, proxy), int(server.answer_bytes)
    if server.transport == "sse":
        most = min(most, _SSE_EVENT_BYTES)
        async with (
            _client(name, server, auth, transport, most, after_failure="is stuck") as client,
            sse_client(
                server.url,
                httpx_client_factory=lambda headers=None, timeout=None, auth=None: client,  # noqa: ARG005 - it has its own
            ) as streams,
        ):
            yield streams
        return
    async with (
        _client(name, server, auth, transport, most, after_failure="goes on") as client,
        client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=most) as streams,
    ):
        yield streams


@contextlib.asynccontextmanager
async def _client(
    name: str,
    server: Server,
    auth: httpx2.Auth | None,
    transport: MakeTransport,
    most: int,
    after_failure: AfterFailure,
) -> AsyncIterator[httpx2.AsyncClient]:
    """Make a client that ends the context with an ``UpstreamError`` when the server exceeds a bound."""
    async with anyio.create_task_group() as tasks:

        async def fail(error: UpstreamError) -> None:
            raise error

        def end(error: UpstreamError) -> None:
            tasks.start_soon(fail, error)

        limits = httpx2.Limits(max_connections=_MOST_CONNECTIONS, max_keepalive_connections=_KEPT_CONNECTIONS)
        bounded = BoundedTransport(
            inner=transport(limits),
            name=name,
            most=most,
            seconds=max(server.startup_seconds, server.call_seconds) + _SPARE_SECONDS,
            after_failure=after_failure,
            fail=end,
        )
        try:
            yield httpx2.AsyncClient(
                transport=bounded,
                headers={**server.headers, "Accept-Encoding": "identity"},
                auth=auth,
                timeout=None,
                trust_env=False,
                follow_redirects=False,
            )
        except* (MCPError, httpx2.HTTPStatusError):
            if bounded.status not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                raise
            raise UpstreamError(
                "server_unavailable",
                f"The server {quote_sent(name)} wants other credentials: it answers {bounded.status}.",
                hint=f"Look at its auth in the configuration; with OAuth, run: gloveport servers login {name}",
            ) from None
