"""The server's own HTTP clients: through the owner's proxy where that serves, and else directly.

httpx2 asks the proxy with CONNECT, and sends nothing of a request before the server has proved its name: of another
scheme than https no request reaches the part that knows the proxy.
"""

import ssl
from collections.abc import Mapping
from typing import NamedTuple

import httpx2
from anyio.lowlevel import checkpoint

from gloveport.forward_proxy.forward_proxy import ForwardProxy
from gloveport.forward_proxy.interim_answers import bound_interim_answers

_STATUS_DIGITS = 3


class ForwardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests. Nothing of the environment counts. The class above is httpx2's interface.

    Args:
        tls: Whom to believe.
        proxy: None for none. Its password is asked for once, with the first request that goes through it.
        limits: How many connections there may be.
    """

    def __init__(self, tls: ssl.SSLContext, proxy: ForwardProxy | None, limits: httpx2.Limits | None = None) -> None:
        self._tls, self._proxy = tls, proxy
        self._limits = limits or httpx2.Limits()
        self._direct = self._make_transport(None)
        self._tunnels: httpx2.AsyncHTTPTransport | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one, and give the head of its answer.

        Raises:
            UpstreamError: The proxy does not connect, or its password can't be had.
            httpx2.TransportError: Anything else that goes wrong on the way.
        """
        url, proxy = request.url, self._proxy
        if proxy is None or not proxy.serves(url.scheme, url.raw_host.decode().lower().removesuffix(".")):
            return await self._direct.handle_async_request(request)
        tunnels = self._tunnels or await self._open(proxy)
        try:
            return await tunnels.handle_async_request(request)
        except httpx2.ProxyError as error:
            status = str(error)[:_STATUS_DIGITS]
            raise proxy.refusal(url.host, url.port or 443, int(status) if status.isdigit() else 0) from None

    async def _open(self, proxy: ForwardProxy) -> httpx2.AsyncHTTPTransport:
        place = proxy.settings.url or ""
        way = httpx2.Proxy(place, auth=await proxy.credentials())
        if self._tunnels is None:  # nobody else has come meanwhile
            self._tunnels = self._make_transport(way)
        return self._tunnels

    def _make_transport(self, way: httpx2.Proxy | None) -> httpx2.AsyncHTTPTransport:
        transport = httpx2.AsyncHTTPTransport(verify=self._tls, trust_env=False, limits=self._limits, proxy=way)
        return bound_interim_answers(transport)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._direct.aclose()
        if self._tunnels is not None:
            await self._tunnels.aclose()


class UnusableReplyError(Exception):
    """An answer that is compressed, or too large."""


class BoundedReply(NamedTuple):
    """An answer to ``post_bounded``, and its whole body."""

    status: int
    headers: httpx2.Headers
    content: bytes


async def post_bounded(
    transport: ForwardedTransport, url: str, headers: Mapping[str, str], body: bytes, most_bytes: int
) -> BoundedReply:
    """Post a body. No redirect is followed. The caller limits the time.

    Raises:
        UnusableReplyError: The answer is compressed, perhaps to a bomb, or has more than ``most_bytes``.
        UpstreamError, httpx2.HTTPError, httpx2.InvalidURL: There is no answer.
    """
    client = httpx2.AsyncClient(transport=transport, trust_env=False, follow_redirects=False, timeout=None)
    async with client, client.stream("POST", url, headers=headers, content=body) as response:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise UnusableReplyError("compresses its answer, though it was not asked to")
        content = bytearray()
        async for piece in response.aiter_raw():
            content += piece
            if len(content) > most_bytes:
                raise UnusableReplyError(f"answers more than {most_bytes} bytes")
            await checkpoint()  # thousands of small pieces may have come at once
        return BoundedReply(response.status_code, response.headers, bytes(content))
