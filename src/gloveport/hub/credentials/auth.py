"""Puts the owner's credentials into requests to a server that is reached by URL, and to it alone.

Secrets are resolved for each request, so that a renewed one counts at once, and again when the server has refused one.
The scrubber knows each credential before it is sent.
"""

import logging
import re
import ssl
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import TypeAlias

import httpx2
from msgspec import Struct

from gloveport.errors import ConfigError, UpstreamError
from gloveport.forward_proxy.forward_proxy import ForwardProxy
from gloveport.hub.credentials.login_storage import Login, Logins
from gloveport.hub.credentials.oauth_endpoint import OAuthEndpoint
from gloveport.hub.credentials.stored_login import (
    StoredLogin,
    client_of_login,
    is_issuer,
    login_required,
    unavailable,
)
from gloveport.model.egress import Basic, Bearer, ClientCredentials, Header, Query, Secret
from gloveport.model.hub import OAuthLogin, Server, ServerAuth
from gloveport.oauth.grant_requests import client_of, fields_of
from gloveport.oauth.renewal import Obtain, RenewedToken
from gloveport.oauth.token_endpoint import (
    Client,
    Refusal,
    Token,
    endpoint_error,
    request_token,
    require_access,
    require_scrubbable,
)
from gloveport.policy.hosts.authorities import is_confidential
from gloveport.secrets.strength import guess_bits
from gloveport.secrets.vault import Vault

_Source: TypeAlias = Callable[[str], Awaitable[tuple[str, str]]]
"""Returns a header's name and value, or a query parameter's with ``_PARAMETER`` before its name. The argument is a
value that the server has refused: then the source returns another one if it can."""

_PARAMETER = "?"
"""Marks a query parameter; no header's name begins with it."""

_SCOPES = re.compile(r'scope="([\x20\x21\x23-\x5b\x5d-\x7e]{1,128})"')

_LEAST_BITS = 80.0
"""Of a token of a login, which should have 128 (RFC 6749, 10.10). The server has named who gives them, and what is
scrubbed from everybody's texts must not be a text of that server's choice, such as a path or a host."""

_log = logging.getLogger(__name__)


async def auth_of(
    name: str,
    server: Server,
    *,
    vault: Vault,
    logins: Logins,
    tls: ssl.SSLContext,
    proxy: ForwardProxy | None = None,
) -> httpx2.Auth | None:
    """Make the httpx2 auth of a server with a URL, once for each connect; None if the server has no credentials.
    ``vault`` holds the secrets, and is told the tokens, which are requested through ``proxy``, if there is one.

    Raises:
        UpstreamError: A credential is not available: ``login_required``, ``oauth_failed``, ``secret_unavailable``; or
            it would be sent in clear text: ``plain_http``.
    """
    if not server.auth:
        return None
    url = httpx2.URL(server.url)
    if not is_confidential(url.scheme, url.host):
        raise UpstreamError(
            "plain_http",
            f"The server {name} has a credential, which never leaves without encryption.",
            hint="The owner has to give it an https URL.",
        )
    keeper = _Keeper(name=name, server=server, vault=vault, logins=logins, tls=tls, proxy=proxy)
    credentials = _Credentials(name, server.url, keeper.sources())
    await credentials.check()
    return credentials


class _Credentials(httpx2.Auth):
    def __init__(self, name: str, url: str, sources: tuple[_Source, ...]) -> None:
        self._name = name
        self._origin = _origin(httpx2.URL(url))
        self._sources = sources

    async def check(self) -> None:
        """Fetch every credential once: a missing one is reported now, and not as a failed connection."""
        await self._headers(["" for _ in self._sources])

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if _origin(request.url) != self._origin:  # by a redirect, or by the server's own messages
            raise UpstreamError("misdirected", f"The server {self._name} leads to another, which gets no credentials.")
        sent = await self._headers(["" for _ in self._sources])
        _apply_credentials(request, sent)
        response = yield request
        challenge = response.headers.get("www-authenticate", "")
        if response.status_code == 403 and "insufficient_scope" in challenge:
            scopes = _SCOPES.search(challenge)  # all scopes or none: a name that is cut would mislead
            _log.warning("server %s wants a login with other scopes: %s", self._name, scopes[0] if scopes else "…")
        if response.status_code != 401:
            return
        others = await self._headers([value for _, value in sent])
        if others != sent:
            _apply_credentials(request, others)
            response = yield request
        if response.status_code == 401:
            raise UpstreamError(
                "credential_refused",
                f"The server {self._name} refuses its credential.",
                hint="The owner has to renew it. Retrying does not help.",
            )

    async def _headers(self, refused: list[str]) -> list[tuple[str, str]]:
        try:
            return [await source(value) for source, value in zip(self._sources, refused, strict=True)]
        except ConfigError as error:
            _log.warning("no request to %s: %s", self._name, error)
            raise unavailable(self._name) from None


class _Keeper(Struct, frozen=True, kw_only=True):
    """Makes the sources of a server's credentials."""

    name: str
    server: Server
    vault: Vault
    logins: Logins
    tls: ssl.SSLContext
    proxy: ForwardProxy | None

    def sources(self) -> tuple[_Source, ...]:
        """One source for each credential, in the configured order. The scrubber knows each by a name of its own."""
        counts, sources = Counter[str](), []
        for auth in self.server.auth:
            counts[auth.kind] += 1
            number = "" if counts[auth.kind] == 1 else f"-{counts[auth.kind]}"
            sources.append(self._source(f"servers.{self.name}.{auth.kind}{number}", auth))
        return tuple(sources)

    def _source(self, label: str, auth: ServerAuth) -> _Source:
        match auth:
            case Bearer():
                return self._fixed_source(label, auth.secret, "authorization", lambda secret: f"Bearer {secret}")
            case Basic():
                return self._fixed_source(label, auth.secret, "authorization", auth.header)
            case Header():
                return self._fixed_source(
                    label, auth.secret, auth.name.lower(), lambda secret: f"{auth.prefix}{secret}"
                )
            case Query():
                return self._fixed_source(label, auth.secret, f"{_PARAMETER}{auth.name}", lambda secret: secret)
            case ClientCredentials():
                return self._bearing(self._client_credentials(label, auth))
            case OAuthLogin():
                login = self._stored_login(label, auth)
                refusal = login_required(self.name, "it refuses the token that it has just been given")
                return self._bearing(login.obtain, refusal, login.has_changed)

    def _fixed_source(self, label: str, ref: Secret, header: str, written: Callable[[str], str]) -> _Source:
        async def source(refused: str) -> tuple[str, str]:
            if refused:
                self.vault.forget(ref)
            return header, written(await self.vault.get(label, ref))

        return source

    def _bearing(
        self, obtain: Obtain, refusal: UpstreamError | None = None, has_changed: Callable[[], bool] = lambda: False
    ) -> _Source:
        token = RenewedToken(owner=self.name, obtain=obtain, clock=time.time, refusal=refusal)

        async def source(refused: str) -> tuple[str, str]:
            if has_changed():
                token.forget()
            return "authorization", f"Bearer {await token.get(refused.removeprefix('Bearer '))}"

        return source

    def _client_credentials(self, label: str, grant: ClientCredentials) -> Obtain:
        async def obtain(_refused: str) -> Token:
            secret = await self.vault.get(f"{label}.client", grant.client_secret)
            answer = await self._request(grant.token_url, client_of(grant, secret), fields_of(grant))
            if isinstance(answer, Refusal):
                self.vault.forget(grant.client_secret)  # the owner may put another there
            token = require_access(self.name, answer)
            self._remember(f"{label}.token", token.access)
            return token

        return obtain

    def _stored_login(self, label: str, auth: OAuthLogin) -> StoredLogin:
        async def request(login: Login, fields: Mapping[str, str]) -> Token | Refusal:
            if not is_issuer(auth, login.issuer):  # the owner has configured another issuer since the login
                raise login_required(self.name, "the login is to another authorization server than the owner's")
            secret = await self.vault.get(f"{label}.client", auth.client_secret) if auth.client_secret else ""
            return await self._request(login.token_endpoint, client_of_login(login, secret), fields)

        def remember(login: Login) -> None:
            secrets = {"token": login.access_token, "refresh": login.refresh_token, "client": login.client_secret}
            if any(secret and guess_bits(secret) < _LEAST_BITS for secret in secrets.values()):
                raise endpoint_error(self.name, "gives a token that is like ordinary text")
            for purpose, secret in secrets.items():
                self._remember(f"{label}.{purpose}", secret)

        storage = self.logins.of(self.name, self.server.url, auth.tokens)
        return StoredLogin(name=self.name, storage=storage, request=request, remember=remember)

    async def _request(self, url: str, client: Client, fields: Mapping[str, str]) -> Token | Refusal:
        endpoint = OAuthEndpoint(owner=self.name, url=url, tls=self.tls, proxy=self.proxy)
        return await request_token(self.name, client, fields, endpoint.post, time.time)

    def _remember(self, label: str, secret: str) -> None:
        with require_scrubbable(self.name):
            if secret:
                self.vault.remember(label, secret)


def _apply_credentials(request: httpx2.Request, headers: list[tuple[str, str]]) -> None:
    for name, value in headers:
        if name.startswith(_PARAMETER):
            request.url = request.url.copy_set_param(name.removeprefix(_PARAMETER), value)
    # Bytes: httpx2 would require text to be ASCII.
    fields = [(name.encode(), value.encode()) for name, value in headers if not name.startswith(_PARAMETER)]
    taken = {name for name, _ in fields}
    request.headers = httpx2.Headers([*((n, v) for n, v in request.headers.raw if n.lower() not in taken), *fields])


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
