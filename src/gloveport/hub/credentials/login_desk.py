"""Logs a person in to servers and out: runs the login flow, stores the tokens, and revokes them."""

import contextlib
import logging
import ssl
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

import anyio
from msgspec import Struct

from gloveport.errors import ConfigError, UpstreamError
from gloveport.forward_proxy.forward_proxy import ForwardProxy
from gloveport.hub.credentials.login_flow import LoginFlow
from gloveport.hub.credentials.login_storage import Login, Logins
from gloveport.hub.credentials.loopback import callback
from gloveport.hub.credentials.oauth_endpoint import OAuthEndpoint
from gloveport.hub.credentials.stored_login import client_of_login, is_issuer
from gloveport.model.hub import OAuthLogin, Server
from gloveport.oauth.token_endpoint import post_fields
from gloveport.secrets.sources import Sources

Outcome: TypeAlias = Literal["nobody", "forgotten", "revoked"]
"""Of a logout: nobody was logged in; the tokens are deleted; the authorization server has revoked them too."""

_SDK = "mcp.client.auth.oauth2"


class LoginDesk(Struct, frozen=True, kw_only=True):
    """Logs a person in to servers, and out.

    Attributes:
        sources: Resolves the secrets of OAuth clients.
        tls: The trusted certificate authorities.
        show: Shows the person the URL to open.
        seconds: How long the person may take.
    """

    logins: Logins
    sources: Sources
    tls: ssl.SSLContext
    show: Callable[[str], None]
    proxy: ForwardProxy | None = None
    seconds: float = 300.0

    async def login(self, name: str, server: Server) -> Login:
        """Log in to a server, and store the tokens.

        Raises:
            ConfigError: The configuration has no login to this server; or the tokens can't be stored.
            UpstreamError: The login failed: ``login_failed``, ``login_refused``, ``login_timeout``,
                ``issuer_changed``, ``issuer_refused``.
        """
        auth = oauth_of(name, server)
        storage = self.logins.of(name, server.url, auth.tokens)
        former = await storage.load()
        secret = await self.sources.resolve(auth.client_secret) if auth.client_secret else ""
        try:
            with anyio.fail_after(self.seconds), _quiet():
                async with callback() as waiting:
                    flow = LoginFlow(
                        name=name,
                        server=server,
                        auth=auth,
                        secret=secret,
                        waiting=waiting,
                        tls=self.tls,
                        proxy=self.proxy,
                        show=self.show,
                    )
                    login = await flow.go("" if former is None else former.issuer)
        except TimeoutError:
            raise UpstreamError(
                "login_timeout", f"Nobody has logged in within {self.seconds:g} s.", hint="start it again"
            ) from None
        async with storage.hold_lock():
            await storage.save(login)
        return login

    async def logout(self, name: str, server: Server) -> Outcome:
        """Remove the tokens of a server, and revoke them where the authorization server offers that.

        Raises:
            ConfigError: The configuration has no login to this server; or the tokens can't be removed.
        """
        auth = oauth_of(name, server)
        storage = self.logins.of(name, server.url, auth.tokens)
        async with storage.hold_lock():
            try:
                login = await storage.load()
            except ConfigError:  # an unreadable login is removed too
                login = None
                await storage.forget()
                return "forgotten"
            await storage.forget()
        if login is None:
            return "nobody"
        return "revoked" if await self._revoke(name, auth, login) else "forgotten"

    async def _revoke(self, name: str, auth: OAuthLogin, login: Login) -> bool:
        if not login.revocation_endpoint or not is_issuer(auth, login.issuer):
            return False
        try:
            secret = await self.sources.resolve(auth.client_secret) if auth.client_secret else ""
            endpoint = OAuthEndpoint(owner=name, url=login.revocation_endpoint, tls=self.tls, proxy=self.proxy)
            kind = "refresh_token" if login.refresh_token else "access_token"
            token = login.refresh_token or login.access_token
            fields = {"token": token, "token_type_hint": kind}
            status, _ = await post_fields(name, client_of_login(login, secret), fields, endpoint.post)
        except (ConfigError, UpstreamError):
            return False
        return status == 200


def oauth_of(name: str, server: Server) -> OAuthLogin:
    """Return the configured login of a server. Raises ConfigError if the server has none."""
    for auth in server.auth:
        if isinstance(auth, OAuthLogin):
            return auth
    raise ConfigError(
        f"the server {name} has no login", hint=f'write [[servers.{name}.auth]] with kind = "oauth", if it needs one'
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the SDK's log for the time of the context: it quotes servers without escaping."""
    logger = logging.getLogger(_SDK)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
