"""Derives from an API's ``auth`` which parts of a request the owner's credentials take. Pure."""

from collections import Counter
from collections.abc import Iterator
from typing import Self

from msgspec import Struct

from gloveport.egress.http.heads import hyphenate
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
)

_AUTHORIZATION = b"authorization"
# Headers by which a program could claim another sender or client; they are never passed on.
_NEVER = frozenset({b"proxy-authorization", b"forwarded", b"via", b"x-real-ip"})
_SIGNATURE_HEADERS = frozenset({b"x-amz-date", b"x-amz-security-token"})
_SIGNATURE_PARAMETERS = frozenset(
    f"X-Amz-{name}"
    for name in ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature", "Security-Token")
)


class AuthRules(Struct, frozen=True, kw_only=True):
    """Which credentials are injected into an API's requests, and what is stripped for them.

    Attributes:
        headers, parameters: Names of the program's headers and parameters that are stripped.
        filled: Headers with placeholders; ``apply`` removes all of their values but those that it has filled.
        named: The API's credentials with unique names; signatures last, for they cover all the others.
        signatures: The credentials that sign a request and its body.
        fills_body: Whether a placeholder is filled in the body.
    """

    api: Api
    headers: frozenset[bytes]
    parameters: frozenset[str]
    filled: frozenset[bytes]
    named: tuple[tuple[str, Auth], ...]
    signatures: tuple[SigV4, ...]
    fills_body: bool

    @classmethod
    def of(cls, api: Api) -> Self:
        """Make the rules of an API."""
        headers, parameters = _list_stripped(api)
        places = [place for auth in api.auth if isinstance(auth, Placeholder) for place in auth.places]
        filled = {place[len("header:") :].lower().encode() for place in places if place.startswith("header:")}
        return cls(
            api=api,
            headers=frozenset({*headers, *map(hyphenate, filled)}),
            parameters=frozenset(parameters),
            filled=frozenset(filled),
            named=tuple(_name_credentials(api)),
            signatures=tuple(auth for auth in api.auth if isinstance(auth, SigV4)),
            fills_body=any(place.startswith(("form:", "body:")) for place in places),
        )


def _name_credentials(api: Api) -> Iterator[tuple[str, Auth]]:
    counts: Counter[str] = Counter()
    for auth in sorted(api.auth, key=lambda auth: isinstance(auth, SigV4)):
        kind = auth.name if isinstance(auth, Placeholder) else auth.kind
        counts[kind] += 1
        yield kind if counts[kind] == 1 else f"{kind}-{counts[kind]}", auth


def _list_stripped(api: Api) -> tuple[set[bytes], set[str]]:
    """List the program's headers, spelt by ``hyphenate``, and parameters that are stripped."""
    headers, parameters = set(_NEVER), set[str]()
    for auth in api.auth:
        match auth:
            case Placeholder() | Postgres() | Redis():
                continue
            case Header():
                headers.add(hyphenate(auth.name.lower().encode()))
            case Query():
                parameters.add(auth.name)
            case SigV4():
                headers |= _SIGNATURE_HEADERS
                parameters |= _SIGNATURE_PARAMETERS
            case Bearer() | Basic() | ClientCredentials() | RefreshToken():
                pass
        headers.add(_AUTHORIZATION)
    return headers, parameters
