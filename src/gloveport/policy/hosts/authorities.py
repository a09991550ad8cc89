"""Canonicalizes hosts, and finds the API whose patterns match a scheme, host and port.

All comparisons use canonical hosts. A text that clients and resolvers may read in two ways is refused, not interpreted:
``127.1``, ``0x7f.1`` and ``2130706433`` are the loopback address to some and a name to others.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple, TypeAlias

from gloveport.late_libraries import idna
from gloveport.late_pattern import late_pattern
from gloveport.model.egress import Api, ConnectionScheme, Egress, Scheme

PlaceScheme: TypeAlias = Scheme | ConnectionScheme

_SANDBOX_NAME = "gloveport"
"""The host name of every sandbox."""

_LOOPBACK = "127.0.0.1"
_LONGEST = 253
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = late_pattern(rf"{_LABEL}(?:\.{_LABEL})*")
# A host that ends in a number is an IPv4 address to the URL standard and to inet_aton, in any notation.
_ENDS_IN_NUMBER = late_pattern(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
_PORT = late_pattern(r"[1-9][0-9]{0,4}")
_HOST_AND_PORT = late_pattern(r"(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>[^:]*))?")
_SCHEMES: tuple[PlaceScheme, ...] = ("https", "http", "tcp", "postgres", "redis")
DEFAULT_PORTS: Mapping[str, int] = {"https": 443, "http": 80}
"""Default ports of schemes that have one."""


class Authority(NamedTuple):
    """Scheme, host and port. ``host`` is canonical; in a pattern it may begin with ``*.``."""

    scheme: PlaceScheme
    host: str
    port: int

    def __str__(self) -> str:
        """The spelling of a configuration, with scheme and port unless they are the default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "" if self.scheme == "https" else f"{self.scheme}://"
        port = "" if self.port == DEFAULT_PORTS.get(self.scheme) else f":{self.port}"
        return f"{scheme}{host}{port}"


def is_confidential(scheme: str, host: str) -> bool:
    """Tell whether nobody on the way can read requests to a URL: they are encrypted, or stay on this machine."""
    if scheme == "https":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.removesuffix(".").rpartition(".")[2] == "localhost"


@lru_cache(maxsize=4096)
def canonical_host(text: str) -> str:
    """Give the canonical spelling of a host: a name in A-labels, or an address without brackets.

    Idempotent. An IPv4-mapped IPv6 address becomes the IPv4 address that a kernel would dial.

    Raises:
        ValueError: It is no host, or an ambiguous one. The message is for a person.
    """
    if not 0 < len(text) <= _LONGEST + 1:
        raise ValueError(f"A host has 1 to {_LONGEST} characters.")
    if ":" in text or "[" in text:
        return _ipv6(text)
    name = text.lower() if text.isascii() else _a_labels(text)
    name = name.removesuffix(".")
    if len(name) > _LONGEST or _NAME.fullmatch(name) is None:
        raise ValueError(f"{text!r} is not a host name.")
    if _ENDS_IN_NUMBER.fullmatch(name):
        return _ipv4(name)
    return _a_labels(name) if "xn--" in name else name


def _ipv4(text: str) -> str:
    try:
        return str(IPv4Address(text))
    except ValueError:
        raise ValueError(f"{text!r} is not an IPv4 address: it needs four plain decimal numbers.") from None


def _ipv6(text: str) -> str:
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        address = IPv6Address(inner)
    except ValueError:
        raise ValueError(f"{text!r} is not an IPv6 address.") from None
    if address.scope_id is not None:
        raise ValueError(f"{text!r} has a zone: an address with a zone is local to one machine.")
    return str(address.ipv4_mapped or address)


def _a_labels(text: str) -> str:
    """Map by UTS 46, then encode by IDNA 2008. An ASCII label is kept, so it may have an underscore."""
    try:
        labels = idna.uts46_remap(text, std3_rules=False, transitional=False).split(".")
        return ".".join(_a_label(label) for label in labels)
    except (idna.IDNAError, UnicodeError) as error:
        raise ValueError(f"{text!r} is not a host name: {error}.") from None


def _a_label(label: str) -> str:
    if label.isascii() and not label.startswith("xn--"):
        return label
    return idna.alabel(label).decode("ascii")


def is_address(host: str) -> bool:
    """Tell whether a canonical host is an address."""
    return ":" in host or _ENDS_IN_NUMBER.fullmatch(host) is not None


def find_loopback(host: str) -> str | None:
    """The loopback address to which a canonical host leads inside a sandbox; None for a host outside."""
    if not is_address(host):
        return _LOOPBACK if host == _SANDBOX_NAME or host.rpartition(".")[2] == "localhost" else None
    address = ip_address(host)
    if address.is_unspecified:  # to the kernel, this machine
        return _LOOPBACK
    return host if address.is_loopback else None


def is_canonical(host: str) -> bool:
    """Tell whether a host is spelled as ``canonical_host`` spells it."""
    try:
        return canonical_host(host) == host
    except ValueError:
        return False


@lru_cache(maxsize=4096)
def parse_pattern(text: str) -> Authority:
    """Parse one of an API's ``hosts``: ``host``, ``host:port``, or either after a scheme.

    Raises:
        ValueError: It is malformed. The message is for the operator.
    """
    before, mark, rest = text.rpartition("://")
    scheme = next((one for one in _SCHEMES if one == before), None) if mark else "https"
    if scheme is None:
        raise ValueError(f"{text!r} has an unknown scheme: there are {', '.join(_SCHEMES)}.")
    if any(character in rest for character in "/?#@"):
        raise ValueError(f"{text!r} names more than a place: leave away path, query and user.")
    match = _HOST_AND_PORT.fullmatch(rest)
    if match is None:
        raise ValueError(f"{text!r} is no host:port; an IPv6 address stands in brackets.")
    return Authority(scheme, _pattern_host(scheme, match["host"]), _pattern_port(text, scheme, match["port"]))


def _pattern_host(scheme: str, text: str) -> str:
    """Check a pattern's host. A wildcard needs at least two more labels: one for a top-level domain is a mistake."""
    if not text.startswith("*."):
        return canonical_host(text)
    if scheme not in DEFAULT_PORTS:
        raise ValueError(f"{text!r}: what is no HTTP API needs its whole name.")
    suffix = canonical_host(text[2:])
    if "." not in suffix or is_address(suffix):
        raise ValueError(f"{text!r} is too wide: `*.` stands before a name of two labels or more.")
    return f"*.{suffix}"


def _pattern_port(text: str, scheme: str, digits: str | None) -> int:
    if digits is None and scheme in DEFAULT_PORTS:
        return DEFAULT_PORTS[scheme]
    if digits is None:
        raise ValueError(f"{text!r} needs a port, as in {scheme}://host:5432.")
    if _PORT.fullmatch(digits) is None or int(digits) > 65_535:
        raise ValueError(f"{text!r} has no port from 1 to 65535.")
    return int(digits)


class _Index(NamedTuple):
    owners: dict[Authority, tuple[str, Api]]
    places: dict[str, list[Authority]]
    """The places that active APIs name, by host or wildcard."""


class _Same:
    """An ``Egress`` hashed by identity, since it holds a mapping. Keeps it alive, so that its id is not reused."""

    __slots__ = ("egress",)

    def __init__(self, egress: Egress) -> None:
        self.egress = egress

    def __hash__(self) -> int:
        return id(self.egress)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.egress is other.egress


@lru_cache(maxsize=256)
def _index(same: _Same) -> _Index:
    index = _Index({}, {})
    for name, api, place in _claims(same.egress):
        if place not in index.owners:
            index.owners[place] = (name, api)
            index.places.setdefault(place.host, []).append(place)
    return index


def _claims(egress: Egress) -> Iterator[tuple[str, Api, Authority]]:
    """The places that each active API names, in the order of the APIs' names."""
    for name, api in sorted(egress.apis.items()):
        if api.active:
            yield from ((name, api, parse_pattern(pattern)) for pattern in api.hosts)


def spellings(host: str) -> Iterator[str]:
    """The pattern hosts that match a host: itself, then wildcards, the longest first."""
    yield host
    _, dot, suffix = host.partition(".")
    while dot:
        yield f"*.{suffix}"
        _, dot, suffix = suffix.partition(".")


def find(egress: Egress, scheme: PlaceScheme, host: str, port: int) -> tuple[str, Api] | None:
    """Find the active API that names a place. An exact name beats a wildcard, and a longer wildcard a shorter one.

    ``host`` is canonical. The patterns are parsed once for each ``Egress``, not for each request.
    """
    owners = _index(_Same(egress)).owners
    found = (owners.get(Authority(scheme, spelling, port)) for spelling in spellings(host))
    return next(filter(None, found), None)


def places_of(egress: Egress, host: str) -> tuple[Authority, ...]:
    """List the places at which active APIs grant a host, under any scheme and port."""
    places = _index(_Same(egress)).places
    return tuple(sorted(place for spelling in spellings(host) for place in places.get(spelling, ())))


def exact_places(egress: Egress) -> tuple[Authority, ...]:
    """List the places that active APIs name without a wildcard: their names can resolve inside a sandbox."""
    owners = _index(_Same(egress)).owners
    return tuple(sorted(place for place in owners if not (place.host.startswith("*.") or is_address(place.host))))
