"""Obtains access tokens for APIs by the grants of the configuration, and renews them before they expire."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

import anyio
from msgspec import Struct, field

from gloveport.egress.http.heads import Headers, Outbound
from gloveport.egress.transport.route import Route
from gloveport.errors import ConfigError
from gloveport.model.egress import Api, ClientCredentials, RefreshToken, secrets_of
from gloveport.oauth.grant_requests import Grant, client_of, fields_of
from gloveport.oauth.renewal import RenewedToken
from gloveport.oauth.token_endpoint import Refusal, Token, request_token, require_access, require_scrubbable
from gloveport.policy.hosts.authorities import canonical_host
from gloveport.secrets.vault import Vault

PostTo: TypeAlias = Callable[[Route, Outbound, bytes], Awaitable[tuple[int, Headers, bytes]]]
"""Sends a request with a body; returns status, headers and bounded body. Raises ``UpstreamError``."""

_log = logging.getLogger(__name__)


class _RotatingToken(Struct, eq=False):
    """The refresh token from the owner's secret source, and the one that the server has replaced it by.

    All grants with this token share it: an old and a new configuration may be in use together. There is one exchange at
    a time: a server may take a refresh token that comes twice for stolen, and revoke all tokens.
    """

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    original: str = ""
    current: str = ""


class _TokenEntry(Struct, eq=False):
    """The access token of one credential, and the last one that an API has refused."""

    token: RenewedToken
    refused: str = ""


class AccessTokens:
    """The access tokens of one server."""

    def __init__(self, vault: Vault, post: PostTo) -> None:
        self._vault = vault
        self._post = post
        self._tokens: dict[tuple[str, Grant, Route], _TokenEntry] = {}
        self._rotating_tokens: dict[
            tuple[str, str], _RotatingToken
        ] = {}  # by server too, so that none gets another's token

    async def get(self, name: str, api: Api, grant: Grant) -> str:
        """Return a valid access token. The credential's secrets are scrubbed by its ``name``; the networks, addresses
        and certificate authorities of ``api`` apply to the token endpoint too.

        Raises:
            ConfigError: A secret for it is not available.
            UpstreamError: The token endpoint issues none (``oauth_failed``), or can't be reached.
        """
        route, target = _endpoint(name, api, grant)
        entry = self._tokens.get((name, grant, route))  # the route too: a reload may have changed the API's terms
        if entry is None:
            # A grant that is not in use may be one of a former configuration.
            self._tokens = {key: other for key, other in self._tokens.items() if other.token.is_in_use}

            async def obtain(_refused: str) -> Token:
                return await self._obtain(name, grant, route, target)

            token = RenewedToken(owner=name, obtain=obtain, clock=anyio.current_time)
            entry = self._tokens[name, grant, route] = _TokenEntry(token)
        return await entry.token.get(entry.refused)

    def invalidate(self, name: str) -> None:
        """Note that an API has refused the token, so that ``get`` obtains another.

        A token that is only a moment old stays: a new one would be refused too.
        """
        for (owner, *_), entry in self._tokens.items():
            if owner == name:
                entry.refused = entry.token.settled or entry.refused

    async def _obtain(self, name: str, grant: Grant, route: Route, target: str) -> Token:
        token = require_access(name, await self._ask(name, grant, route, target))
        with require_scrubbable(name):
            self._vault.remember(f"{name}.token", token.access)  # from here on it is scrubbed
        return token

    async def _ask(self, name: str, grant: Grant, route: Route, target: str) -> Token | Refusal:
        if isinstance(grant, ClientCredentials):
            return await self._request(name, grant, route, target)
        token = self._rotating_tokens.setdefault((grant.token_url, grant.refresh_token), _RotatingToken())
        async with token.lock:
            source_token = await self._vault.get(f"{name}.refresh", grant.refresh_token)
            if source_token != token.original:  # the owner has replaced it
                token.original = token.current = source_token
            await self._vault.require_room(grant.refresh_token, token.current)  # or the next one would be lost
            answer = await self._request(name, grant, route, target, token.current)
            if isinstance(answer, Token) and answer.refresh:
                await self._keep(name, grant, token, answer.refresh)
        return answer

    async def _request(
        self, name: str, grant: Grant, route: Route, target: str, refresh_token: str = ""
    ) -> Token | Refusal:
        secret = await self._vault.get(f"{name}.client", grant.client_secret) if grant.client_secret else ""

        async def post(headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
            raw = tuple((header.encode(), value.encode()) for header, value in headers.items())
            status, _, content = await self._post(route, Outbound(method="POST", target=target, headers=raw), body)
            return status, content

        client, fields = client_of(grant, secret), fields_of(grant, refresh_token)
        answer = await request_token(name, client, fields, post, anyio.current_time)
        if isinstance(answer, Refusal):
            for ref in secrets_of(grant):
                self._vault.forget(ref)  # read the secret again next time: the owner may replace it
        return answer

    async def _keep(self, name: str, grant: RefreshToken, token: _RotatingToken, new: str) -> None:
        """Store the new refresh token: the one that was sent may be void by now."""
        token.current = new
        try:
            with require_scrubbable(name):
                await self._vault.replace(f"{name}.refresh", grant.refresh_token, new)
        except ConfigError as error:
            _log.warning("the new refresh token of %s is lost when this server ends: %s", name, error)


def _endpoint(name: str, api: Api, grant: Grant) -> tuple[Route, str]:
    try:
        url = urlsplit(grant.token_url)
        host, port = canonical_host(url.hostname or ""), url.port or 443
    except ValueError as error:
        raise ConfigError(f"token_url of {name} names no server: {error}", hint="write https://host/path") from None
    target = f"{url.path or '/'}{'?' if url.query else ''}{url.query}"
    return Route.to(name.partition(".")[0], api, "https", host, port), target
