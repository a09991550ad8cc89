"""Access tokens for servers: where they come from, and that they are renewed before they expire.

Why not the SDK's own provider: it holds one lock from each request until the head of its answer, so that calls of one
server would wait for each other; tokens that it has loaded it takes for fresh; and their refresh token it sends to the
server instead of to who gave it. The login itself is the SDK's (``login``).
"""

import logging
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio
from mcp.client.auth.utils import issuers_match

from gloveport.errors import ConfigError, UpstreamError
from gloveport.hub.credentials.logins import Login, Storage
from gloveport.hub.credentials.tokens import Client, Endpoint, Refusal, Token, endpoint_error
from gloveport.model.hub import OAuthLogin

Obtain: TypeAlias = Callable[[str], Awaitable[Token]]
"""Gives a token that is not the one that was refused. Raises ``UpstreamError`` or ``ConfigError``."""

_AGAIN_SECONDS = 10.0  # who gives no token, or one that is refused at once, is not asked more often
_EARLIER_SECONDS = 60.0

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Renewed:
    """A token that is there when it is needed. One renewal at a time; whoever asks meanwhile has what still holds.

    Attributes:
        name: The server's.
        obtain: Where it comes from.
    """

    name: str
    obtain: Obtain
    _lock: anyio.Lock = field(default_factory=anyio.Lock)
    _token: Token | None = None
    _failure: UpstreamError | None = None
    _not_before: float = -math.inf

    async def get(self, refused: str = "") -> str:
        """A token that holds, and is not the one that the server has refused.

        Raises:
            UpstreamError: There is none: ``login_required``, ``oauth_failed`` or ``secret_unavailable``.
        """
        if self._is_due(refused) and not (self._holds(refused) and self._lock.locked()):
            async with self._lock:
                if self._is_due(refused):
                    # Not to be called off half-way: a refresh token that the server has exchanged would be lost.
                    with anyio.CancelScope(shield=True):
                        await self._renew(refused)
        if self._token is None or not self._holds(refused):
            failure = self._failure or login_required(self.name, "it refuses the token that it has just been given")
            raise UpstreamError(failure.code, str(failure.args[0]), hint=failure.hint)  # anew: many tasks raise it
        return self._token.access

    def _holds(self, refused: str) -> bool:
        return self._token is not None and self._token.access != refused and time.time() < self._token.expires

    def _is_due(self, refused: str) -> bool:
        if time.time() < self._not_before:
            return False
        return self._token is None or not self._holds(refused) or _is_over(self._token)

    async def _renew(self, refused: str) -> None:
        try:
            self._token = await self.obtain(refused)
        except (UpstreamError, ConfigError) as error:
            _log.warning("no new token for %s: %s", self.name, error)
            self._failure = unavailable(self.name) if isinstance(error, ConfigError) else error
            self._not_before = time.time() + _AGAIN_SECONDS
        else:
            since = time.time() if _is_over(self._token) else self._token.obtained
            self._failure, self._not_before = None, since + _AGAIN_SECONDS


@dataclass(frozen=True, kw_only=True)
class StoredLogin:
    """The tokens of a login that a person has made.

    Attributes:
        name: The server's.
        endpoint: Makes the token endpoint of a login. Raises ``UpstreamError``.
        remember: Takes the secrets of a login out of all that programs see. Raises ``UpstreamError``.
    """

    name: str
    storage: Storage
    endpoint: Callable[[Login], Awaitable[Endpoint]]
    remember: Callable[[Login], None]

    async def obtain(self, refused: str) -> Token:
        """The token that is kept, or another for it where that is refused or about to expire.

        Raises:
            ConfigError: What is kept can't be relied on.
            UpstreamError: A person has to log in, or the authorization server gives none.
        """
        async with self.storage.hold_lock():
            login = await self.storage.load()  # another process may have exchanged it
            if login is None:
                raise login_required(self.name, "nobody has logged in")
            self.remember(login)
            token = _token_of(login)
            if token.access != refused and not _is_over(token):
                return token
            if not login.refresh_token:
                raise login_required(self.name, "the login is over")
            try:
                renewed = await self._refresh(login)
            except UpstreamError as error:
                if token.access == refused or time.time() >= token.expires:
                    raise
                _log.warning("the token of %s is not renewed yet: %s", self.name, error)
                return token
            self.remember(renewed)
            try:
                await self.storage.save(renewed)
            except ConfigError as error:
                _log.warning("the login to %s is lost when its new token expires: %s", self.name, error)
            return _token_of(renewed)

    async def _refresh(self, login: Login) -> Login:
        fields = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "resource": login.resource}
        answer = await (await self.endpoint(login)).token(fields)
        match answer:
            case Refusal(code="invalid_grant" | "invalid_client" | "unauthorized_client"):
                raise login_required(self.name, "the authorization server has ended the login")
            case Refusal():
                raise refused_by(self.name, answer)
            case Token():
                return login.model_copy(
                    update={
                        "access_token": answer.access,
                        "refresh_token": answer.refresh or login.refresh_token,
                        "obtained": answer.obtained,
                        "expires": answer.expires,
                    }
                )


def unavailable(name: str) -> UpstreamError:
    """A credential can't be had. Where it is kept, and why not, is for the log of the server alone."""
    return UpstreamError(
        "secret_unavailable",
        f"The credential for the server {name} can't be had.",
        hint="The owner of this computer has to repair it; a program can't.",
    )


def login_required(name: str, reason: str) -> UpstreamError:
    """A person has to log in to this server."""
    return UpstreamError(
        "login_required",
        f"The server {name} wants a login of its owner: {reason}.",
        hint=f"The owner has to run: gloveport servers login {name}. Retrying does not help.",
    )


def refused_by(name: str, refusal: Refusal) -> UpstreamError:
    """A token endpoint has refused."""
    return endpoint_error(name, f"answers {refusal.status} {refusal.code}".rstrip())


def is_issuer(auth: OAuthLogin, issuer: str) -> bool:
    """Tell whether an authorization server may know the client's secret: it is the one that the owner has named."""
    return issuers_match(auth.issuer, issuer) if auth.issuer else auth.client_secret is None


def client_of(login: Login, secret: str) -> Client:
    """Who we are to the authorization server of a login."""
    return Client(id=login.client_id, secret=login.client_secret or secret, auth=login.client_auth)


def _token_of(login: Login) -> Token:
    return Token(login.access_token, login.obtained, math.inf if login.expires is None else login.expires)


def _is_over(token: Token) -> bool:
    """Whether it is time to renew it."""
    return time.time() >= token.expires - min(_EARLIER_SECONDS, (token.expires - token.obtained) / 2)
