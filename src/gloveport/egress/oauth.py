"""Obtains access tokens (RFC 6749) and renews them before they expire.

One renewal at a time for each credential; whoever asks meanwhile has the token that still holds, or waits for the new
one. A program can't make it ask more often: neither by requests that are refused, nor by going away half-way, which
could lose a refresh token that the server has exchanged.
"""

import base64
import json
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import quote_plus, urlencode, urlsplit

import anyio

from gloveport.egress.http.heads import Headers, Outbound
from gloveport.egress.transport.route import Route
from gloveport.errors import ConfigError, UpstreamError
from gloveport.model.egress import Api, ClientCredentials, RefreshToken
from gloveport.policy.hosts import canonical_host
from gloveport.secrets.vault import Vault

Grant: TypeAlias = ClientCredentials | RefreshToken
Post: TypeAlias = Callable[[Route, Outbound, bytes], Awaitable[tuple[int, Headers, bytes]]]
"""Sends a request with its body; status, headers and bounded body come back. Raises ``UpstreamError``."""

_DEFAULT_SECONDS = 3600.0
_LEAST_SECONDS = 10.0  # a server that says less, or whose tokens are refused at once, is not asked more often
_MOST_SECONDS = 30 * 86_400.0
_EARLIER_SECONDS = 60.0
_ASK_SECONDS = 10.0

_TOKEN = re.compile(r"[\x21-\x7e]+")
_ERROR_CODE = re.compile(r"[a-z][a-z_]{1,39}")
_HINTS = {
    "invalid_client": "the owner has to check client_id, client_secret and client_auth",
    "invalid_grant": "the owner has to obtain a new refresh token",
    "invalid_scope": "the owner has to check the scopes",
}
_HINT = "the owner has to check token_url and what is sent there"

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Held:
    """The token of one credential. Times are the event loop's.

    Attributes:
        renew: When another is asked for.
        expires: When it holds no longer.
        failure: Why the last renewal failed.
    """

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    token: str = ""
    obtained: float = -math.inf
    renew: float = -math.inf
    expires: float = -math.inf
    failure: ConfigError | UpstreamError | None = None


@dataclass(eq=False, slots=True)
class _Rotated:
    """The refresh token that a source gave, and the one that the server has put in its place.

    Shared by all grants that use it, as an old and a new configuration may at the same time. One exchange at a time:
    a server may take a token that comes twice for a stolen one, and end them all.
    """

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    given: str = ""
    current: str = ""


class Tokens:
    """The access tokens of one server."""

    def __init__(self, vault: Vault, post: Post) -> None:
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
        now = anyio.current_time()
        held = self._all_held.get((name, grant))
        if held is None:
            self._forget_over(now)
            held = self._all_held[name, grant] = _Held()
        if now < held.expires and (now < held.renew or held.lock.locked()):
            return held.token
        async with held.lock:
            if anyio.current_time() >= held.renew:
                with anyio.CancelScope(shield=True):
                    await self._renew(name, api, grant, held)
        if held.failure is not None and anyio.current_time() >= held.expires:
            raise held.failure.with_traceback(None)
        return held.token

    def invalidate(self, name: str) -> None:
        """Obtain another token when one is asked for next: an upstream has refused it.

        Not one that was obtained a moment ago: another would be refused too.
        """
        for (owner, _), held in self._all_held.items():
            if owner == name and anyio.current_time() - held.obtained >= _LEAST_SECONDS:
                held.expires = -math.inf
                if held.failure is None:
                    held.renew = -math.inf

    def _forget_over(self, now: float) -> None:
        """Forget what holds no longer: a grant that is not asked for any more may be one of a former configuration."""
        self._all_held = {
            key: held
            for key, held in self._all_held.items()
            if now < max(held.expires, held.renew) or held.lock.locked()
        }

    async def _renew(self, name: str, api: Api, grant: Grant, held: _Held) -> None:
        try:
            with anyio.fail_after(_ASK_SECONDS):
                answer = await self._ask(name, api, grant)
            token = self._read_token(name, answer)
        except (ConfigError, UpstreamError, TimeoutError) as error:
            held.failure = _failure(name, "does not answer in time") if isinstance(error, TimeoutError) else error
            held.renew = anyio.current_time() + _LEAST_SECONDS
            _log.warning("no new token: %s", held.failure)
            return
        seconds = _lifetime(answer)
        held.token, held.failure, held.obtained = token, None, anyio.current_time()
        held.expires = held.obtained + seconds
        held.renew = held.obtained + max(seconds / 2, min(0.8 * seconds, seconds - _EARLIER_SECONDS))

    async def _ask(self, name: str, api: Api, grant: Grant) -> Mapping[str, object]:
        scope = {"scope": " ".join(grant.scopes)} if grant.scopes else {}
        if isinstance(grant, ClientCredentials):
            audience = {"audience": grant.audience} if grant.audience else {}
            return await self._send(name, api, grant, {"grant_type": "client_credentials", **scope, **audience})
        rotated = self._all_rotated.setdefault((grant.token_url, grant.refresh_token), _Rotated())
        async with rotated.lock:
            given = await self._vault.get(f"{name}.refresh", grant.refresh_token)
            if given != rotated.given:  # the owner has put another there
                rotated.given = rotated.current = given
            fields = {"grant_type": "refresh_token", "refresh_token": rotated.current, **scope}
            answer = await self._send(name, api, grant, fields)
            await self._keep(name, grant, rotated, answer.get("refresh_token"))
        return answer

    async def _send(self, name: str, api: Api, grant: Grant, fields: dict[str, str]) -> Mapping[str, object]:
        headers = await self._name_client(name, grant, fields)
        route, target = _endpoint(name, api, grant)
        out = Outbound(method="POST", target=target, headers=headers)
        status, _, content = await self._post(route, out, urlencode(fields).encode())
        answer = _parse_answer(content)
        if "error" in answer or not 200 <= status < 300:
            raise _refusal(name, status, answer.get("error"))
        return answer

    async def _name_client(self, name: str, grant: Grant, fields: dict[str, str]) -> Headers:
        """Say who asks, in the header or in the fields (RFC 6749, 2.3.1)."""
        headers: Headers = (
            (b"content-type", b"application/x-www-form-urlencoded"),
            (b"accept", b"application/json"),
        )
        if grant.client_secret is None:
            fields["client_id"] = grant.client_id
            return headers
        secret = await self._vault.get(f"{name}.client", grant.client_secret)
        if grant.client_auth == "body":
            fields |= {"client_id": grant.client_id, "client_secret": secret}
            return headers
        pair = f"{quote_plus(grant.client_id)}:{quote_plus(secret)}"
        return (*headers, (b"authorization", b"Basic " + base64.b64encode(pair.encode())))

    async def _keep(self, name: str, grant: RefreshToken, rotated: _Rotated, new: object) -> None:
        """Keep the refresh token that came instead of the one that was sent, which may hold no longer."""
        if not isinstance(new, str) or not _TOKEN.fullmatch(new):
            return
        rotated.current = new
        try:
            await self._vault.replace(f"{name}.refresh", grant.refresh_token, new)
        except ConfigError as error:
            _log.warning("the new refresh token of %s is lost when this server ends: %s", name, error)
        except ValueError as error:
            raise _failure(name, f"gives a refresh token that can't be used: {error}") from None

    def _read_token(self, name: str, answer: Mapping[str, object]) -> str:
        """The access token of an answer. From here on it is scrubbed."""
        token, kind = answer.get("access_token"), answer.get("token_type", "bearer")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token) or str(kind).lower() != "bearer":
            raise _failure(name, "gives no bearer token")
        try:
            self._vault.remember(f"{name}.token", token)
        except ValueError as error:
            raise _failure(name, f"gives a token that can't be kept out of answers: {error}") from None
        return token


def _endpoint(name: str, api: Api, grant: Grant) -> tuple[Route, str]:
    try:
        url = urlsplit(grant.token_url)
        host, port = canonical_host(url.hostname or ""), url.port or 443
    except ValueError as error:
        raise ConfigError(f"token_url of {name} names no server: {error}", hint="write https://host/path") from None
    route = Route(
        api=name.partition(".")[0],
        scheme="https",
        host=host,
        port=port,
        networks=api.networks,
        addresses=api.addresses,
        ca_file=api.ca_file,
    )
    return route, f"{url.path or '/'}{'?' if url.query else ''}{url.query}"


def _parse_answer(content: bytes) -> Mapping[str, object]:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _lifetime(answer: Mapping[str, object]) -> float:
    """Seconds; some servers write the number as a text."""
    try:
        seconds = float(str(answer.get("expires_in")))
    except ValueError:
        return _DEFAULT_SECONDS
    return max(_LEAST_SECONDS, min(seconds, _MOST_SECONDS))


def _refusal(name: str, status: int, code: object) -> UpstreamError:
    # What else the answer says is not repeated: it may quote what was sent.
    known = code if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else ""
    return _failure(name, f"answers {status} {known}".rstrip(), _HINTS.get(known, _HINT))


def _failure(name: str, problem: str, hint: str = _HINT) -> UpstreamError:
    return UpstreamError("oauth_failed", f"the token endpoint of {name} {problem}", hint=hint)
