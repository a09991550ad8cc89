"""Logins that a person has made: their tokens as they are kept, and renewed.

Why not the SDK's own provider: it holds one lock from each request until the head of its answer, so that calls of one
server would wait for each other; tokens that it has loaded it takes for fresh; and their refresh token it sends to the
server instead of to who gave it. The login itself is the SDK's (``login``).
"""

import logging
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mcp.client.auth.utils import issuers_match

from gloveport.errors import ConfigError, UpstreamError
from gloveport.hub.credentials.logins import Login, Storage
from gloveport.hub.credentials.tokens import Endpoint
from gloveport.model.hub import OAuthLogin
from gloveport.oauth.renewal import is_due
from gloveport.oauth.token_endpoint import Client, Refusal, Token, refused_by

_log = logging.getLogger(__name__)


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
            if token.access != refused and not is_due(token, time.time()):
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


def is_issuer(auth: OAuthLogin, issuer: str) -> bool:
    """Tell whether an authorization server may know the client's secret: it is the one that the owner has named."""
    return issuers_match(auth.issuer, issuer) if auth.issuer else auth.client_secret is None


def client_of(login: Login, secret: str) -> Client:
    """Who we are to the authorization server of a login."""
    return Client(id=login.client_id, secret=login.client_secret or secret, auth=login.client_auth, repeats_id=True)


def _token_of(login: Login) -> Token:
    return Token(login.access_token, login.obtained, math.inf if login.expires is None else login.expires)
