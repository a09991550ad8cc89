"""What is said about a request and an answer on their way: heads without framing, which each side makes anew."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Protocol, TypeAlias

from gloveport.egress.wire import Wire
from gloveport.model.egress import Scheme
from gloveport.policy.hosts import DEFAULT_PORTS

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Names in lower case, in the order in which they came: a repeated header is there as often as it came. Neither framing
(``content-length``, ``transfer-encoding``, ``trailer``) nor what is for one connection (``connection``, ``te``, …)."""


@dataclass(frozen=True, kw_only=True)
class Route:
    """Where a request goes, as the policy names it.

    Attributes:
        api: Name of the API; empty where there is none, as under ``yolo``.
        host: Canonical name or address.
        networks: What is not public and may be dialled all the same.
        addresses: What is dialled instead of what DNS tells; empty for what DNS tells.
        ca_file: Authorities to trust instead of the system's.
    """

    api: str
    scheme: Scheme
    host: str
    port: int
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    addresses: tuple[IPv4Address | IPv6Address, ...] = ()
    ca_file: str | None = None

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Asked for several times for each request."""
        return hash((self.api, self.scheme, self.host, self.port, self.networks, self.addresses, self.ca_file))

    @property
    def authority(self) -> str:
        """What ``host`` and ``:authority`` say: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True, kw_only=True)
class Outbound:
    """The head of a request to be sent.

    Attributes:
        target: Path and query, in ASCII, as they are sent.
        headers: Without ``host``, which is the route's.
    """

    method: str
    target: str
    headers: Headers


class Answer(Protocol):
    """A response that comes."""

    @property
    def status(self) -> int:
        """101, or 200 and above."""

    @property
    def reason(self) -> bytes:
        """The reason phrase."""

    @property
    def headers(self) -> Headers:
        """Its headers, without framing."""

    @property
    def length(self) -> int | None:
        """What ``content-length`` said. Where no body comes (``HEAD``, 304) that of the body that is not sent."""

    @property
    def body(self) -> AsyncIterator[bytes]:
        """Its content in pieces of at most 64 KiB, without transfer coding; content coding is as it came.

        Raises ``UpstreamError`` where it breaks off.
        """

    @property
    def trailers(self) -> Headers:
        """Known when ``body`` has ended."""

    @property
    def upgraded(self) -> Wire | None:
        """After status 101: the connection; no body then."""

    @property
    def ahead(self) -> bytes:
        """What had come on the upgraded connection already."""
