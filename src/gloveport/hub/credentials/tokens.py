"""Sends requests to the token endpoint of a server's authorization server."""

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass

import anyio
import httpx2

from gloveport.oauth.token_endpoint import (
    TIMEOUT_SECONDS,
    Client,
    Refusal,
    Token,
    endpoint_error,
    read_answer,
    require_access,
)

_MOST_BYTES = 1 << 20
_HEADERS = {"accept-encoding": "identity", "user-agent": "gloveport"}


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A token endpoint, or a revocation endpoint.

    Attributes:
        owner: Whose it is, in messages.
        tls: Whom to believe.
    """

    owner: str
    url: str
    client: Client
    tls: ssl.SSLContext

    async def token(self, fields: Mapping[str, str]) -> Token | Refusal:
        """Ask for a token. Its times are seconds since the epoch.

        Raises:
            UpstreamError: ``oauth_failed``: it can't be reached, or what it answers is neither token nor refusal.
        """
        status, content = await self.send(fields)
        answer = read_answer(status, content, time.time())
        return require_access(self.owner, answer) if isinstance(answer, Token) else answer

    async def send(self, fields: Mapping[str, str]) -> tuple[int, bytes]:
        """Send fields, and say who we are; status and body come back.

        Raises:
            UpstreamError: As ``token``.
        """
        headers, body = self.client.request(fields)
        try:
            with anyio.fail_after(TIMEOUT_SECONDS):
                return await self._post(body, {**headers, **_HEADERS})
        except TimeoutError:
            raise endpoint_error(self.owner, "does not answer in time") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise endpoint_error(self.owner, f"can't be asked ({type(error).__name__})") from None

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        http = httpx2.AsyncClient(verify=self.tls, trust_env=False, follow_redirects=False, timeout=None)
        async with http, http.stream("POST", self.url, headers=headers, content=body) as response:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise endpoint_error(self.owner, "compresses its answer, though it was not asked to")
            content = bytearray()
            async for piece in response.aiter_raw():
                content += piece
                if len(content) > _MOST_BYTES:
                    raise endpoint_error(self.owner, f"answers more than {_MOST_BYTES} bytes")
            return response.status_code, bytes(content)
