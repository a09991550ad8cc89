"""Posts to the token and revocation endpoints of a server's authorization server, over TLS by the owner's settings."""

import ssl
from collections.abc import Mapping

import httpx2
from msgspec import Struct

from gloveport.forward_proxy.forward_proxy import ForwardProxy
from gloveport.forward_proxy.http_transport import ForwardedTransport
from gloveport.oauth.token_endpoint import endpoint_error

_MOST_BYTES = 1 << 20
_HEADERS = {"accept-encoding": "identity", "user-agent": "gloveport"}


class OAuthEndpoint(Struct, frozen=True, kw_only=True):
    """A token endpoint, or a revocation endpoint.

    Attributes:
        owner: Whose endpoint it is, for error messages.
        tls: The trusted certificate authorities.
        proxy: The owner's proxy, if there is one.
    """

    owner: str
    url: str
    tls: ssl.SSLContext
    proxy: ForwardProxy | None

    async def post(self, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Post a body; return the status and the bounded body of the answer. The caller limits the time.

        Raises:
            UpstreamError: ``oauth_failed``: the endpoint can't be reached, or its answer is too large; or as
                ``ForwardedTransport``.
        """
        try:
            return await self._post(body, {**headers, **_HEADERS})
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise endpoint_error(self.owner, f"can't be asked ({type(error).__name__})") from None

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        transport = ForwardedTransport(self.tls, self.proxy)
        http = httpx2.AsyncClient(transport=transport, trust_env=False, follow_redirects=False, timeout=None)
        async with http, http.stream("POST", self.url, headers=headers, content=body) as response:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise endpoint_error(self.owner, "compresses its answer, though it was not asked to")
            content = bytearray()
            async for piece in response.aiter_raw():
                content += piece
                if len(content) > _MOST_BYTES:
                    raise endpoint_error(self.owner, f"answers more than {_MOST_BYTES} bytes")
            return response.status_code, bytes(content)
