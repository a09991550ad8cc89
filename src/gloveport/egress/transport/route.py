"""Routes: where a request goes, and on which terms its server is dialled."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Self

from msgspec import Struct

from gloveport.model.egress import Api, Scheme
from gloveport.policy.hosts.authorities import DEFAULT_PORTS


class Route(Struct, frozen=True, kw_only=True):
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

    @classmethod
    def to(cls, name: str, api: Api, scheme: Scheme, host: str, port: int) -> Self:
        """Make the route to a place of an API, by the API's own terms."""
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
        """What the ``host`` header says: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"
