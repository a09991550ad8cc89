"""What is said about a request and an answer on their way: heads without framing, which each side makes anew."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Protocol, TypeAlias

from gloveport.egress.wire import Wire
from gloveport.model.egress import Scheme

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Names in lower case, in the order in which they came: a repeated header is there as often as it came. Neither framing
(``content-length``, ``transfer-encoding``, ``trailer``) nor what is for one connection only (``connection``, ``te``, …)."""


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
    """A response that comes.

    Attributes:
        body: Its content, piece by piece, without transfer coding; content coding is as it came. Raises
            ``UpstreamError`` where it breaks off.
        trailers: Known when ``body`` has ended.
        upgraded: After status 101: the connection; no body then.
        ahead: What had come on it already.
    """

    status: int
    reason: bytes
    headers: Headers
    body: AsyncIterator[bytes]
    trailers: Headers
    upgraded: Wire | None
    ahead: bytes
