"""Renews the tokens of logins that a person has made, and keeps them.

Why not the SDK's own provider: it holds one lock from each request until the head of its answer, so that calls of one
server would wait for each other; it takes loaded tokens for fresh ones; and it sends their refresh token to the server
instead of to the authorization server that issued it. The login itself is the SDK's (``login_flow``).
"""

import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from mcp.client.auth.utils import issuers_match
from msgspec import Struct

from gloveport.errors import ConfigError, UpstreamError
from gloveport.hub.credentials.login_storage import Login, Stamp, Storage
from gloveport.model.hub import OAuthLogin
from gloveport.oauth.renewal import is_due
from gloveport.oauth.token_endpoint import Client, Refusal, Token, require_access

_ENDED: Final = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})

_log = logging.getLogger(__name__)


class StoredLogin(Struct, eq=False, kw_only=True):
    """The tokens of a login that a person has made.

    Attributes:
        request: Sends these form fields to the token endpoint of a login. Raises ``UpstreamError``.
        remember: Has the secrets of a login scrubbed from now on. Raises ``UpstreamError``.
    """

    name: str
    storage: Storage
    request: Callable[[Login, Mapping[str, str]], Awaitable[Token | Refusal]]
    remember: Callable[[Login], None]
    _stamp: Stamp = None

    def has_changed(self) -> bool:
        """Whether another process has logged in or out since this was last asked, or a token was obtained."""
        before, self._stamp = self._stamp, self.storage.stamp()
        return before != self._stamp

    async def obtain(self, refused: str) -> Token:
        """Return the stored token, renewed where it was refused or is about to expire.

        Raises:
            ConfigError: The stored login is damaged or not private, or a renewed one could not be stored.
            UpstreamError: A person has to log in, or the authorization server issues no token.
        """
        async with self.storage.hold_lock():
            try:
                return await self._obtain(refused)
            finally:
                self._stamp = self.storage.stamp()

    async def _obtain(self, refused: str) -> Token:
        login = await self.storage.load()  # another process may have exchanged it
        if login is None:
            raise login_required(self.name, "nobody has logged in")
        self.remember(login)
        token = _token_of(login)
        holds = token.access != refused and time.time() < token.expires
        if holds and not (login.refresh_token and is_due(token, time.time())):
            return token
        if not login.refresh_token:
            raise login_required(self.name, "the login is over")
        try:
            return _token_of(await self._refresh(login))
        except (UpstreamError, ConfigError) as error:
            if token.access == refused or time.time() >= token.expires:
                raise
            _log.warning("the token of %s is not renewed yet: %s", self.name, error)
            return token

    async def _refresh(self, login: Login) -> Login:
        await self.storage.save(login)  # or there is no room for the next refresh token, and this one would be void
        fields = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "resource": login.resource}
        answer = await self.request(login, fields)
        if isinstance(answer, Refusal) and answer.code in _ENDED:
            raise login_required(self.name, "the authorization server has ended the login")
        if isinstance(answer, Token):
            update: dict[str, object] = {"refresh_token": answer.refresh or login.refresh_token}
            if answer.access:
                update |= {"access_token": answer.access, "obtained": answer.obtained, "expires": answer.expires}
            login = login.model_copy(update=update)
            await self._keep(login)  # even if the answer is otherwise wrong: the former refresh token may be void
        require_access(self.name, answer)
        return login

    async def _keep(self, login: Login) -> None:
        self.remember(login)
        try:
            await self.storage.save(login)
        except ConfigError as error:
            _log.warning("the login to %s is lost when its new token expires: %s", self.name, error)


def unavailable(name: str) -> UpstreamError:
    """Make the error of an unavailable credential. Where it is stored, and what went wrong, is for our log alone."""
    return UpstreamError(
        "secret_unavailable",
        f"The credential for the server {name} can't be had.",
        hint="The owner of this computer has to repair it; a program can't.",
    )


def login_required(name: str, reason: str) -> UpstreamError:
    """Make the error that says that a person has to log in to this server."""
    return UpstreamError(
        "login_required",
        f"The server {name} wants a login of its owner: {reason}.",
        hint=f"The owner has to run: gloveport servers login {name}. Retrying does not help.",
    )


def is_issuer(auth: OAuthLogin, issuer: str) -> bool:
    """Whether an authorization server is the one that the owner has configured; any is where there is no secret."""
    return issuers_match(auth.issuer, issuer) if auth.issuer else auth.client_secret is None


def client_of_login(login: Login, secret: str) -> Client:
    """Return the OAuth client of a login, with the authentication that the SDK's flow succeeded with."""
    return Client(id=login.client_id, secret=login.client_secret or secret, auth=login.client_auth, repeats_id=True)


def _token_of(login: Login) -> Token:
    return Token(login.access_token, login.obtained, math.inf if login.expires is None else login.expires)
