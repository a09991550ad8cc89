"""Routes: the destination of a request, and the terms on which its server is dialled."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Self

from msgspec import Struct

from gloveport.model.egress import Api, Scheme
from gloveport.policy.hosts.authorities import DEFAULT_PORTS


class Route(Struct, frozen=True, kw_only=True):
    """The destination of a request, by the names of the policy.

    Attributes:
        api: Name of the API; empty if there is none, as under ``yolo``.
        host: Canonical name or address.
        networks: Networks that may be dialled though they are not public.
        addresses: Addresses to dial instead of those of DNS; empty for those of DNS.
        ca_file: Certificate authorities to trust instead of the system's.
    """

    api: str
    scheme: Scheme
    host: str
    port: int
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    addresses: tuple[IPv4Address | IPv6Address, ...] = ()
    ca_file: str | None = None

    @classmethod
    def to(cls, name: str, api: Api, scheme: Scheme, host: str, port: int) -> Self:
        """Make the route to a host and port of an API, on the API's terms."""
        return cls(
            api=name,
            scheme=scheme,
            host=host,
            port=port,
            networks=api.networks,
            addresses=api.addresses,
            ca_file=api.ca_file,
        )

    @property
    def authority(self) -> str:
        """The value of the ``host`` header, without the scheme's default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"
