"""Asks the token endpoint of an authorization server (RFC 6749). What it says is bounded, and never repeated."""

import base64
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import quote_plus, urlencode

import anyio
import httpx2
import pydantic_core

from gloveport.errors import UpstreamError

ClientAuth: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post"]

_SECONDS = 10.0
_MOST_BYTES = 1 << 20
_DEFAULT_SECONDS = 3600.0
_LEAST_SECONDS, _MOST_SECONDS = 10.0, 30 * 86_400.0
_TOKEN = re.compile(r"[\x21-\x7e]+")
_ERROR_CODE = re.compile(r"[a-z][a-z_]{1,39}")
_HINT = "the owner has to check the credentials of the server in the configuration, and that its URLs can be reached"


class Token(NamedTuple):
    """What an endpoint has given. Times are seconds since the epoch."""

    access: str
    obtained: float
    expires: float
    refresh: str = ""
    """Another refresh token instead of the one that was sent, where there is one."""


class Refusal(NamedTuple):
    """What an endpoint has answered instead."""

    status: int
    code: str
    """``invalid_grant`` and so on; empty where it is none."""


@dataclass(frozen=True, kw_only=True)
class Client:
    """How we name ourselves to an endpoint."""

    id: str
    secret: str = ""
    auth: ClientAuth = "none"


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
        """Ask for a token.

        Raises:
            UpstreamError: ``oauth_failed``: it can't be reached, or what it answers is neither token nor refusal.
        """
        status, content = await self.send(fields)
        try:
            answer = pydantic_core.from_json(content, allow_inf_nan=False)
        except ValueError:
            answer = None
        told = answer if isinstance(answer, dict) else {}
        if status not in {200, 201} or "error" in told:
            code = told.get("error")
            return Refusal(status, code if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else "")
        access, kind, refresh = told.get("access_token"), told.get("token_type", "bearer"), told.get("refresh_token")
        if not isinstance(access, str) or not _TOKEN.fullmatch(access) or str(kind).lower() != "bearer":
            raise endpoint_error(self.owner, "gives no bearer token")
        now = time.time()
        other = refresh if isinstance(refresh, str) and _TOKEN.fullmatch(refresh) else ""
        return Token(access, now, now + lifetime(told.get("expires_in")), other)

    async def send(self, fields: Mapping[str, str]) -> tuple[int, bytes]:
        """Send fields, and say who we are; status and body come back.

        Raises:
            UpstreamError: As ``token``.
        """
        client, headers = self.client, dict(_HEADERS)
        said = {**fields, "client_id": client.id}  # some want it there, however the client names itself
        if client.auth == "client_secret_post":
            said["client_secret"] = client.secret
        elif client.auth == "client_secret_basic":
            pair = f"{quote_plus(client.id)}:{quote_plus(client.secret)}"  # RFC 6749, 2.3.1
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        try:
            with anyio.fail_after(_SECONDS):
                return await self._post(urlencode(said).encode(), headers)
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


_HEADERS: Mapping[str, str] = {
    "content-type": "application/x-www-form-urlencoded",
    "accept": "application/json",
    "accept-encoding": "identity",
    "user-agent": "gloveport",
}


def lifetime(said: object) -> float:
    """Seconds that a token holds; some servers write the number as a text, and some write none."""
    try:
        seconds = float(str(said))
    except ValueError:
        return _DEFAULT_SECONDS
    return max(_LEAST_SECONDS, min(seconds, _MOST_SECONDS))


def endpoint_error(owner: str, problem: str, hint: str = _HINT) -> UpstreamError:
    """The error of an endpoint that is of no use."""
    return UpstreamError("oauth_failed", f"the token endpoint of {owner} {problem}", hint=hint)
