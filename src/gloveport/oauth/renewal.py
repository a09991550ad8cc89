"""Renews a token before it expires, once for all callers."""

import logging
import math
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import anyio
from msgspec import Struct, field

from gloveport.errors import ConfigError, UpstreamError
from gloveport.oauth.token_endpoint import LEAST_SECONDS, Token, endpoint_error

Obtain: TypeAlias = Callable[[str], Awaitable[Token]]
"""Obtains a token other than the refused one. Raises ``UpstreamError`` or ``ConfigError``."""

_EARLIER_SECONDS: Final = 60.0

_log = logging.getLogger(__name__)


def is_due(token: Token, now: float) -> bool:
    """Whether to renew a token: after four fifths of its life, or a minute before its end; never in its first half."""
    life = token.expires - token.obtained
    return now >= token.obtained + max(life / 2, min(0.8 * life, life - _EARLIER_SECONDS))


class RenewedToken(Struct, eq=False, kw_only=True):
    """A token that is renewed by one renewal at a time; meanwhile callers get the old one while it is valid.

    A program can't cause more renewals: neither by refused requests, nor by disconnecting during one, which could lose
    a refresh token that the server has replaced.

    Attributes:
        owner: The token's owner, for error messages.
        obtain: Obtains a token.
        clock: The clock of the tokens' times.
        refusal: The error to raise if the only available token was refused.
    """

    owner: str
    obtain: Obtain
    clock: Callable[[], float]
    refusal: UpstreamError | None = None
    _lock: anyio.Lock = field(default_factory=anyio.Lock)
    _token: Token | None = None
    _failure: UpstreamError | ConfigError | None = None
    _not_before: float = -math.inf

    async def get(self, refused: str = "") -> str:
        """Return a valid token other than the refused one.

        Raises:
            UpstreamError, ConfigError: There is none: the error of ``obtain``, or ``oauth_failed``.
        """
        if self._is_wanted(refused) and not (self._holds(refused) and self._lock.locked()):
            async with self._lock:
                if self._is_wanted(refused):
                    with anyio.CancelScope(shield=True):
                        await self._renew(refused)
        if self._token is None or not self._holds(refused):
            failure = self._failure or self.refusal
            failure = failure or endpoint_error(self.owner, "gives tokens that are refused at once")
            raise failure.with_traceback(None)
        return self._token.access

    def forget(self) -> None:
        """Obtain another for the next caller, whatever the reason that the last was not."""
        self._token, self._failure, self._not_before = None, None, -math.inf

    @property
    def is_in_use(self) -> bool:
        """Whether the token is valid, is being renewed, or failed to be renewed a moment ago."""
        return self._lock.locked() or self._holds("") or self._is_paused

    @property
    def settled(self) -> str:
        """The token, if it is not new: a token that was just obtained is not worth renewing."""
        token = self._token
        return token.access if token is not None and self.clock() - token.obtained >= LEAST_SECONDS else ""

    @property
    def _is_paused(self) -> bool:
        """Whether a renewal was a moment ago. A longer pause would be one that a clock was set back over."""
        return 0 < self._not_before - self.clock() <= LEAST_SECONDS

    def _holds(self, refused: str) -> bool:
        return self._token is not None and self._token.access != refused and self.clock() < self._token.expires

    def _is_wanted(self, refused: str) -> bool:
        if self._is_paused:
            return False
        return self._token is None or not self._holds(refused) or is_due(self._token, self.clock())

    async def _renew(self, refused: str) -> None:
        try:
            self._token = await self.obtain(refused)
        except (UpstreamError, ConfigError) as error:
            _log.warning("no new token for %s: %s", self.owner, error)
            self._failure, self._not_before = error, self.clock() + LEAST_SECONDS
        else:
            since = self.clock() if is_due(self._token, self.clock()) else self._token.obtained
            self._failure, self._not_before = None, since + LEAST_SECONDS
