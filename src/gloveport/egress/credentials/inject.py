"""Injects the owner's credentials into a request, after the program's own were stripped.

A credential goes only to its API's hosts, only over TLS; the route decides which host that is, never the request.
"""

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote

from msgspec import Struct

from gloveport.egress.access_tokens import AccessTokens
from gloveport.egress.credentials import sigv4
from gloveport.egress.credentials.auth_rules import AuthRules
from gloveport.egress.credentials.placeholders import DraftRequest, fill_place, find_placeholder, parameter_name
from gloveport.egress.http.heads import Headers, Outbound, hyphenate
from gloveport.egress.transport.route import Route
from gloveport.errors import Denied
from gloveport.fairness import compute
from gloveport.model.egress import (
    Api,
    Auth,
    Basic,
    Bearer,
    ClientCredentials,
    Header,
    Placeholder,
    Postgres,
    Query,
    Redis,
    RefreshToken,
    SigV4,
    secrets_of,
)
from gloveport.secrets.vault import Vault

MOST_BODY_BYTES = 8 << 20
"""The largest body that is read whole."""

_AUTHORIZATION = "authorization"
_MOST_RULES = 1024
_CONTENT_HASH = b"x-amz-content-sha256"
_UNSIGNED, _UNSIGNED_CHUNKS = b"UNSIGNED-PAYLOAD", b"STREAMING-UNSIGNED-PAYLOAD-TRAILER"
_HASH = re.compile(rb"[0-9a-f]{64}")
_OPAQUE = re.compile(
    rb"(?:image|audio|video|font|multipart)/|application/(?:octet-stream|zip|gzip|x-tar|pdf)\b", re.IGNORECASE
)
"""Content types in which no placeholder is filled."""


class CredentialedRequest(Struct, frozen=True, kw_only=True):
    """A request with credentials.

    Attributes:
        body: The body as it is sent, if it was read whole.
        places: For the audit log: where secrets were injected, as ``header:authorization``, and where a placeholder
            stands that must not be filled there, as ``stray:body``.
    """

    out: Outbound
    body: bytes | None
    places: tuple[str, ...]


class Injector:
    """Injects every kind of credential into requests."""

    def __init__(self, vault: Vault, tokens: AccessTokens) -> None:
        self._vault = vault
        self._tokens = tokens
        self._rules_by_api: dict[int, AuthRules] = {}

    def strip(self, api: Api, out: Outbound) -> Outbound:
        """Strip the program's own credentials where the owner's are injected, so that no attacker's account is used.

        Headers and parameters with placeholders stay for ``apply``. All other bytes of the target stay unchanged.
        """
        rules = self._rules(api)
        headers, parameters, filled = rules.headers, rules.parameters, rules.filled
        return out._replace(
            target=_without_parameters(out.target, parameters) if parameters else out.target,
            headers=tuple(
                (name, value)
                for name, value in out.headers
                if name in filled
                or (hyphenate(name) not in headers and not hyphenate(name).startswith(b"x-forwarded-"))
            ),
        )

    def needs_body(self, api: Api, headers: Headers) -> bool:
        """Whether ``apply`` needs the body, at most ``MOST_BODY_BYTES`` of it, of a request with these headers.

        It does not if the request can be signed without its body, or has a content type that is never filled.
        """
        rules = self._rules(api)
        if any(not _can_sign_unseen(auth, headers) for auth in rules.signatures):
            return True
        return rules.fills_body and not any(name == b"content-type" and _OPAQUE.match(value) for name, value in headers)

    def declare_unseen(self, api: Api, out: Outbound) -> Outbound:
        """Declare a streamed body as unsigned, in a request to be signed whose program has declared nothing of it."""
        if not self._rules(api).signatures or _read_content_hash(out.headers):
            return out
        return out._replace(headers=(*out.headers, (_CONTENT_HASH, _UNSIGNED)))

    def _rules(self, api: Api) -> AuthRules:
        """The rules of an API, cached: each request needs them several times."""
        rules = self._rules_by_api.get(id(api))
        if rules is None or rules.api is not api:
            if len(self._rules_by_api) >= _MOST_RULES:
                self._rules_by_api.clear()
            rules = self._rules_by_api[id(api)] = AuthRules.of(api)
        return rules

    async def apply(
        self,
        api_name: str,
        api: Api,
        route: Route,
        out: Outbound,
        body: bytes | None,
        placeholders: Mapping[str, str],
    ) -> CredentialedRequest:
        """Put the credentials of an API into a request to it.

        Args:
            api_name: The API's name, by which its secrets are scrubbed.
            api: The API, with the credentials to inject.
            route: Where the request goes.
            out: The request's head, stripped.
            body: The request's body if ``needs_body``; None if it is streamed or there is none.
            placeholders: This execution's placeholder strings of all APIs, by the names of the placeholders.

        Raises:
            ConfigError: A secret is not available.
            Denied: A credential would leave in clear text, or the request can't be filled or signed.
            UpstreamError: No access token is available.
        """
        if api.auth and route.scheme != "https":
            raise Denied(
                "plain_http_not_granted",
                f"{route.host} has a credential, which never leaves without encryption.",
                hint="Use https.",
            )
        draft, filled = await self._fill(api_name, api, DraftRequest(out=out, body=body), placeholders)
        strays = [f"stray:{place}" for string in placeholders.values() for place in find_placeholder(string, draft)]
        for kind, auth in self._rules(api).named:
            name = f"{api_name}.{kind}"
            if not isinstance(auth, Placeholder):
                out, place = await self._inject(name, api, auth, route, draft)
                draft = DraftRequest(out=out, body=draft.body)
                filled.append(place)
        return CredentialedRequest(out=draft.out, body=draft.body, places=tuple(dict.fromkeys((*filled, *strays))))

    def forget(self, api_name: str, api: Api) -> None:
        """Have the secrets of an API fetched again when they are needed next: the API has answered 401."""
        for kind, auth in self._rules(api).named:
            name = f"{api_name}.{kind}"
            for ref in secrets_of(auth):
                self._vault.forget(ref)
            self._tokens.invalidate(name)

    async def _fill(
        self, api_name: str, api: Api, draft: DraftRequest, placeholders: Mapping[str, str]
    ) -> tuple[DraftRequest, list[str]]:
        """Fill the places of placeholders. A secret is fetched only if its placeholder occurs in the request."""
        swaps: dict[str, dict[str, str]] = {}
        for kind, auth in self._rules(api).named:
            name = f"{api_name}.{kind}"
            if isinstance(auth, Placeholder):
                string = placeholders.get(auth.name)
                secret = (
                    await self._vault.get(name, auth.secret) if string and find_placeholder(string, draft) else None
                )
                for place in auth.places:
                    of_place = swaps.setdefault(place.lower() if place.startswith("header:") else place, {})
                    if string and secret:
                        of_place[string] = secret
        filled: list[str] = []
        for place, of_place in swaps.items():
            draft, done = await compute(len(draft.body or b""), fill_place, place, draft, of_place)
            if done:
                filled.append(place)
        return draft, filled

    async def _inject(self, name: str, api: Api, auth: Auth, route: Route, draft: DraftRequest) -> tuple[Outbound, str]:
        """Inject one credential into the head; return the head and the credential's place."""
        match auth:
            case Query():
                return _with_parameter(draft.out, auth.name, await self._vault.get(name, auth.secret))
            case SigV4():
                return await self._sign(name, auth, route, draft), "header:authorization"
            case Header():
                return _with_header(draft.out, auth.name, f"{auth.prefix}{await self._vault.get(name, auth.secret)}")
            case Bearer():
                return _with_header(draft.out, _AUTHORIZATION, f"Bearer {await self._vault.get(name, auth.secret)}")
            case ClientCredentials() | RefreshToken():
                return _with_header(draft.out, _AUTHORIZATION, f"Bearer {await self._tokens.get(name, api, auth)}")
            case Basic():
                return _with_header(draft.out, _AUTHORIZATION, auth.header(await self._vault.get(name, auth.secret)))
            case Placeholder() | Postgres() | Redis():
                raise AssertionError("a placeholder is filled in, and a database is no request")

    async def _sign(self, name: str, auth: SigV4, route: Route, draft: DraftRequest) -> Outbound:
        token = auth.session_token
        key = sigv4.SigningKey(
            access_key_id=await self._vault.get(f"{name}.id", auth.access_key_id),
            secret_access_key=await self._vault.get(f"{name}.key", auth.secret_access_key),
            session_token=None if token is None else await self._vault.get(f"{name}.token", token),
            region=auth.region,
            service=auth.service,
        )
        digest = await compute(len(draft.body or b""), _payload_hash, draft)
        return sigv4.sign(draft.out, route.authority, digest, key, datetime.now(UTC))


def _read_content_hash(headers: Headers) -> bytes:
    return next((value for name, value in headers if name == _CONTENT_HASH), b"")


def _can_sign_unseen(auth: SigV4, headers: Headers) -> bool:
    """Whether a request can be signed without its body: S3 accepts an unsigned body over TLS, and all services accept
    the hash that the program declares, for they compare it with the body.
    """
    declared = _read_content_hash(headers)
    if _HASH.fullmatch(declared) or declared in {_UNSIGNED, _UNSIGNED_CHUNKS}:
        return True
    return auth.service == "s3" and not declared


def _payload_hash(draft: DraftRequest) -> str:
    declared = _read_content_hash(draft.out.headers)
    if draft.body is None and (_HASH.fullmatch(declared) or declared == _UNSIGNED):
        return declared.decode()
    if declared == _UNSIGNED_CHUNKS:  # the body has aws-chunked framing with a trailer, and its chunks are unsigned
        return declared.decode()
    if declared.startswith(b"STREAMING-"):
        raise Denied(
            "chunks_are_signed",
            "The chunks of the body are signed with a key that is not the owner's.",
            hint="Turn signed chunks off in the AWS client, or send the body in one piece.",
        )
    return hashlib.sha256(draft.body or b"").hexdigest()


def _without_parameters(target: str, names: frozenset[str]) -> str:
    """Strip parameters. Some servers separate them by ``;``, too, and take the first of one name."""
    path, mark, query = target.partition("?")
    parts = re.split("([&;])", query)
    parameters = zip(["", *parts[1::2]], parts[::2], strict=True)  # each with what separates it from the one before
    kept = [(separator, text) for separator, text in parameters if parameter_name(text) not in names]
    rest = "".join(separator + text for separator, text in [("", kept[0][1]), *kept[1:]]) if kept else ""
    return f"{path}{mark}{rest}" if rest else path


def _with_header(out: Outbound, name: str, value: str) -> tuple[Outbound, str]:
    key = name.lower().encode()
    others = (header for header in out.headers if header[0] != key)
    return out._replace(headers=(*others, (key, value.encode()))), f"header:{name.lower()}"


def _with_parameter(out: Outbound, name: str, value: str) -> tuple[Outbound, str]:
    mark = "&" if "?" in out.target else "?"
    target = f"{out.target}{mark}{quote(name, safe='')}={quote(value, safe='')}"
    return out._replace(target=target), f"query:{name}"
