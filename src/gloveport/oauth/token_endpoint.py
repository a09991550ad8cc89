"""Requests tokens from a token endpoint (RFC 6749): request, answer and errors. The caller provides the transport.

Answers are bounded, and their text is never passed on: it may quote the secrets that were sent.
"""

import base64
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple, TypeAlias
from urllib.parse import quote_plus, urlencode

import anyio
import pydantic_core
from msgspec import Struct

from gloveport.errors import UpstreamError

ClientAuth: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post"]

Post: TypeAlias = Callable[[Mapping[str, str], bytes], Awaitable[tuple[int, bytes]]]
"""Posts headers and a body to one endpoint; returns status and bounded body. Raises ``UpstreamError``."""

HEADERS: Final[Mapping[str, str]] = {
    "content-type": "application/x-www-form-urlencoded",
    "accept": "application/json",
}
_TIMEOUT_SECONDS: Final = 10.0
LEAST_SECONDS: Final = 10.0
"""The least time between two requests to a server whose tokens expire sooner, or are refused at once."""

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
    """A token from an endpoint. Times are seconds of the clock that was passed to ``request_token``."""

    access: str
    """Empty if the endpoint sent no usable access token: see ``require_access``."""

    obtained: float
    expires: float
    refresh: str = ""
    """The new refresh token that replaces the sent one, if any."""


class Refusal(NamedTuple):
    """An endpoint's error."""

    status: int
    code: str
    """``invalid_grant`` and so on; empty if the answer has no such code."""


class Client(Struct, frozen=True, kw_only=True):
    """The client that we authenticate as (RFC 6749, 2.3.1).

    Attributes:
        repeats_id: Whether to send the id as a field too if a header authenticates us. RFC 6749 allows it, some servers
            require it, and others take it for a second credential: so only if the server accepted it before.
    """

    id: str
    secret: str = ""
    auth: ClientAuth = "none"
    repeats_id: bool = False

    def request(self, fields: Mapping[str, str]) -> tuple[Mapping[str, str], bytes]:
        """Make headers and body of a request with these fields."""
        if self.auth == "client_secret_basic":
            pair = f"{quote_plus(self.id)}:{quote_plus(self.secret)}"
            headers = {**HEADERS, "authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
            return headers, urlencode({**fields, **({"client_id": self.id} if self.repeats_id else {})}).encode()
        secret = {"client_secret": self.secret} if self.auth == "client_secret_post" else {}
        return HEADERS, urlencode({**fields, "client_id": self.id, **secret}).encode()


async def request_token(
    owner: str, client: Client, fields: Mapping[str, str], post: Post, clock: Callable[[], float]
) -> Token | Refusal:
    """Request a token by the form fields of a grant. It may be unusable: see ``require_access``. Errors name its
    ``owner``; ``post`` sends the request to the endpoint.

    Raises:
        UpstreamError: ``oauth_failed``: the endpoint does not answer in time; or the error of ``post``.
    """
    status, content = await post_fields(owner, client, fields, post)
    return _read_answer(status, content, clock())


async def post_fields(owner: str, client: Client, fields: Mapping[str, str], post: Post) -> tuple[int, bytes]:
    """Send form fields, authenticated as the client; return status and body. Raises as ``request_token``."""
    try:
        with anyio.fail_after(_TIMEOUT_SECONDS):
            return await post(*client.request(fields))
    except TimeoutError:
        raise endpoint_error(owner, "does not answer in time") from None


def _read_answer(status: int, content: bytes, now: float) -> Token | Refusal:
    try:
        answer = pydantic_core.from_json(content)
    except ValueError:
        answer = None
    reply = answer if isinstance(answer, dict) else {}
    if status not in {200, 201} or "error" in reply:
        code = reply.get("error")
        return Refusal(status, code if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else "")
    access, kind, refresh = reply.get("access_token"), reply.get("token_type", "bearer"), reply.get("refresh_token")
    is_bearer = isinstance(access, str) and _TOKEN.fullmatch(access) and str(kind).lower() == "bearer"
    other = refresh if isinstance(refresh, str) and _TOKEN.fullmatch(refresh) else ""
    return Token(str(access) if is_bearer else "", now, now + lifetime(reply.get("expires_in")), other)


def require_access(owner: str, answer: Token | Refusal) -> Token:
    """Return the answer if it is a usable token.

    Raises:
        UpstreamError: ``oauth_failed``: it is not. Store its refresh token before: it may be the only valid one.
    """
    if isinstance(answer, Refusal):
        problem = f"answers {answer.status} {answer.code}".rstrip()
        raise endpoint_error(owner, problem, _HINTS.get(answer.code, _HINT))
    if not answer.access:
        raise endpoint_error(owner, "gives no bearer token")
    return answer


@contextmanager
def require_scrubbable(owner: str) -> Iterator[None]:
    """Context for registering a token with the scrubber.

    Raises:
        UpstreamError: ``oauth_failed``: the token is too short to be told from ordinary text.
    """
    try:
        yield
    except ValueError as error:
        raise endpoint_error(owner, f"gives a token that can't be kept out of answers: {error}") from None


def lifetime(seconds_sent: object) -> float:
    """Parse a token's lifetime in seconds; some servers send it as a string, and some send nothing valid."""
    try:
        seconds = float(str(seconds_sent))
    except ValueError:
        return _DEFAULT_SECONDS
    return max(LEAST_SECONDS, min(seconds, _MOST_SECONDS))


def endpoint_error(owner: str, problem: str, hint: str = _HINT) -> UpstreamError:
    """Make the error of a failing endpoint."""
    return UpstreamError("oauth_failed", f"the token endpoint of {owner} {problem}", hint=hint)
