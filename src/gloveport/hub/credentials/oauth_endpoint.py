"""Posts to the token and revocation endpoints of a server's authorization server, over TLS by the owner's settings."""

import ssl
from collections.abc import Mapping

import httpx2
from msgspec import Struct

from gloveport.forward_proxy.forward_proxy import ForwardProxy
from gloveport.forward_proxy.http_transport import ForwardedTransport, UnusableReplyError, post_bounded
from gloveport.oauth.token_endpoint import endpoint_error

_MOST_BYTES = 1 << 20
_HEADERS = {"accept-encoding": "identity", "user-agent": "gloveport"}


class OAuthEndpoint(Struct, frozen=True, kw_only=True):
    """A token endpoint, or a revocation endpoint.

    Attributes:
        owner: Whose endpoint it is, for error messages.
        tls: The trusted certificate authorities.
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
        transport = ForwardedTransport(self.tls, self.proxy)
        try:
            status, _, content = await post_bounded(transport, self.url, {**headers, **_HEADERS}, body, _MOST_BYTES)
        except UnusableReplyError as error:
            raise endpoint_error(self.owner, str(error)) from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise endpoint_error(self.owner, f"can't be asked ({type(error).__name__})") from None
        return status, content
