"""Tells which parts of a request belong to the owner, from an API's ``auth`` alone. Pure."""

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
# What a program says of who asks, or on whose behalf, is never passed on.
_NEVER = frozenset({b"proxy-authorization", b"forwarded", b"via", b"x-real-ip"})
_SIGNATURE_HEADERS = frozenset({b"x-amz-date", b"x-amz-security-token"})
_SIGNATURE_PARAMETERS = frozenset(
    f"X-Amz-{name}"
    for name in ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature", "Security-Token")
)


class AuthRules(Struct, frozen=True, kw_only=True):
    """What an API's requests get, and what they lose for it.

    Attributes:
        headers, parameters: Of the program's, what does not leave.
        filled: Headers that are places, in which ``apply`` lets nothing leave but what it has filled in.
        named: Its credentials, by names that are their own within it; signatures last, for they speak of all the rest.
        signatures: Those that sign a request with its body.
        fills_body: Whether one of them is put into the body.
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
    seen: Counter[str] = Counter()
    for auth in sorted(api.auth, key=lambda auth: isinstance(auth, SigV4)):
        kind = auth.name if isinstance(auth, Placeholder) else auth.kind
        seen[kind] += 1
        yield kind if seen[kind] == 1 else f"{kind}-{seen[kind]}", auth


def _list_stripped(api: Api) -> tuple[set[bytes], set[str]]:
    """Headers, hyphenate, and parameters of the program's that don't leave."""
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
