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
"""Sends a request with its body; status, headers and bounded body come back. Raises ``UpstreamError``."""

_log = logging.getLogger(__name__)


class _Rotated(Struct, eq=False):
    """The refresh token that a source gave, and the one that the server has put in its place.

    Shared by all grants that use it, as an old and a new configuration may at the same time. One exchange at a time:
    a server may take a token that comes twice for a stolen one, and end them all.
    """

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    given: str = ""
    current: str = ""


class _Held(Struct, eq=False):
    """The token of one credential, and the one that an API has refused."""

    token: RenewedToken
    refused: str = ""


class AccessTokens:
    """The access tokens of one server."""

    def __init__(self, vault: Vault, post: PostTo) -> None:
        self._vault = vault
        self._post = post
        self._all_held: dict[tuple[str, Grant], _Held] = {}
        self._all_rotated: dict[tuple[str, str], _Rotated] = {}  # by server too: what one gave is no other's to see

    async def get(self, name: str, api: Api, grant: Grant) -> str:
        """A token that holds.

        Args:
            name: Under which the credential and its secrets are known.
            api: Whose networks, addresses and authorities hold for the token endpoint too.
            grant: How it is obtained.

        Raises:
            ConfigError: A secret that is needed can't be had.
            UpstreamError: The token endpoint gives none (``oauth_failed``), or can't be reached.
        """
        held = self._all_held.get((name, grant))
        if held is None:
            # A grant that is not asked for any more may be one of a former configuration.
            self._all_held = {key: other for key, other in self._all_held.items() if other.token.is_in_use}

            async def obtain(_refused: str) -> Token:
                return await self._obtain(name, api, grant)

            token = RenewedToken(owner=name, obtain=obtain, clock=anyio.current_time)
            held = self._all_held[name, grant] = _Held(token)
        return await held.token.get(held.refused)

    def invalidate(self, name: str) -> None:
        """Obtain another token when one is asked for next: an upstream has refused it.

        Not one that was obtained a moment ago: another would be refused too.
        """
        for (owner, _), held in self._all_held.items():
            if owner == name:
                held.refused = held.token.settled or held.refused

    async def _obtain(self, name: str, api: Api, grant: Grant) -> Token:
        token = require_access(name, await self._ask(name, api, grant))
        with require_scrubbable(name):
            self._vault.remember(f"{name}.token", token.access)  # from here on it is scrubbed
        return token

    async def _ask(self, name: str, api: Api, grant: Grant) -> Token | Refusal:
        if isinstance(grant, ClientCredentials):
            return await self._request(name, api, grant)
        rotated = self._all_rotated.setdefault((grant.token_url, grant.refresh_token), _Rotated())
        async with rotated.lock:
            given = await self._vault.get(f"{name}.refresh", grant.refresh_token)
            if given != rotated.given:  # the owner has put another there
                rotated.given = rotated.current = given
            answer = await self._request(name, api, grant, rotated.current)
            if isinstance(answer, Token) and answer.refresh:
                await self._keep(name, grant, rotated, answer.refresh)
        return answer

    async def _request(self, name: str, api: Api, grant: Grant, refresh_token: str = "") -> Token | Refusal:
        secret = await self._vault.get(f"{name}.client", grant.client_secret) if grant.client_secret else ""
        route, target = _endpoint(name, api, grant)

        async def post(headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
            raw = tuple((header.encode(), value.encode()) for header, value in headers.items())
            status, _, content = await self._post(route, Outbound(method="POST", target=target, headers=raw), body)
            return status, content

        client, fields = client_of(grant, secret), fields_of(grant, refresh_token)
        answer = await request_token(name, client, fields, post, anyio.current_time)
        if isinstance(answer, Refusal):
            for ref in secrets_of(grant):
                self._vault.forget(ref)  # the owner may put another there
        return answer

    async def _keep(self, name: str, grant: RefreshToken, rotated: _Rotated, new: str) -> None:
        """Keep the refresh token that came instead of the one that was sent, which may hold no longer."""
        rotated.current = new
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
