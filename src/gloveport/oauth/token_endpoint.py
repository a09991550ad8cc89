"""What a token endpoint is asked and what it answers (RFC 6749). Pure: who asks sends it in its own way.

What an endpoint says is bounded, and never repeated: it may quote what was sent.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias
from urllib.parse import quote_plus, urlencode

import pydantic_core

from gloveport.errors import UpstreamError

ClientAuth: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post"]

HEADERS: Final[Mapping[str, str]] = {
    "content-type": "application/x-www-form-urlencoded",
    "accept": "application/json",
}
TIMEOUT_SECONDS: Final = 10.0
LEAST_SECONDS: Final = 10.0
"""A server whose tokens hold for less, or are refused at once, is not asked more often."""

_DEFAULT_SECONDS: Final = 3600.0
_MOST_SECONDS: Final = 30 * 86_400.0
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_ERROR_CODE: Final = re.compile(r"[a-z][a-z_]{1,39}")
_HINTS: Final = {
    "invalid_client": "the owner has to check client_id, client_secret and client_auth",
    "invalid_grant": "the owner has to obtain a new refresh token",
    "invalid_scope": "the owner has to check the scopes",
}
_HINT: Final = "the owner has to check the credential in the configuration, and that its token_url can be reached"


class Token(NamedTuple):
    """What an endpoint has given. Times are seconds of the clock that ``read_answer`` was told."""

    access: str
    """Empty where the endpoint gave none that can be used: see ``require_access``."""

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
    """How we name ourselves to an endpoint (RFC 6749, 2.3.1).

    Attributes:
        repeats_id: Whether the id stands among the fields also where a header names us. Some servers want it; others
            take it for a second credential.
    """

    id: str
    secret: str = ""
    auth: ClientAuth = "none"
    repeats_id: bool = False

    def request(self, fields: Mapping[str, str]) -> tuple[Mapping[str, str], bytes]:
        """Headers and body of a request with these fields."""
        if self.auth == "client_secret_basic":
            pair = f"{quote_plus(self.id)}:{quote_plus(self.secret)}"
            headers = {**HEADERS, "authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
            return headers, urlencode({**fields, **({"client_id": self.id} if self.repeats_id else {})}).encode()
        secret = {"client_secret": self.secret} if self.auth == "client_secret_post" else {}
        return HEADERS, urlencode({**fields, "client_id": self.id, **secret}).encode()


def read_answer(status: int, content: bytes, now: float) -> Token | Refusal:
    """What an endpoint has answered. Seconds of ``now`` and of the token are those of the same clock, whichever."""
    try:
        answer = pydantic_core.from_json(content)
    except ValueError:
        answer = None
    told = answer if isinstance(answer, dict) else {}
    if status not in {200, 201} or "error" in told:
        code = told.get("error")
        return Refusal(status, code if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else "")
    access, kind, refresh = told.get("access_token"), told.get("token_type", "bearer"), told.get("refresh_token")
    is_bearer = isinstance(access, str) and _TOKEN.fullmatch(access) and str(kind).lower() == "bearer"
    other = refresh if isinstance(refresh, str) and _TOKEN.fullmatch(refresh) else ""
    return Token(str(access) if is_bearer else "", now, now + lifetime(told.get("expires_in")), other)


def require_access(owner: str, token: Token) -> Token:
    """The same token, which can be used.

    Raises:
        UpstreamError: ``oauth_failed``: it can't. Its refresh token may be the only one that still holds.
    """
    if not token.access:
        raise endpoint_error(owner, "gives no bearer token")
    return token


def lifetime(said: object) -> float:
    """Seconds that a token holds; some servers write the number as a text, and some write none."""
    try:
        seconds = float(str(said))
    except ValueError:
        return _DEFAULT_SECONDS
    return max(LEAST_SECONDS, min(seconds, _MOST_SECONDS))


def refused_by(owner: str, refusal: Refusal) -> UpstreamError:
    """A token endpoint has refused."""
    problem = f"answers {refusal.status} {refusal.code}".rstrip()
    return endpoint_error(owner, problem, _HINTS.get(refusal.code, _HINT))


def endpoint_error(owner: str, problem: str, hint: str = _HINT) -> UpstreamError:
    """The error of an endpoint that is of no use."""
    return UpstreamError("oauth_failed", f"the token endpoint of {owner} {problem}", hint=hint)
