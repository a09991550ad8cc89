"""Which addresses may be dialled: those of the public internet, and those that the operator named. Pure."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

# Networks outside the public internet, by the IANA special-purpose registries, independent of Python's release.
_NOT_PUBLIC_IPV4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by carriers; metadata of some clouds (100.100.100.200)
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a public address that leads machines in Azure to their host
        "169.254.0.0/16",  # link-local; metadata of most clouds (169.254.169.254)
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; metadata of one cloud (192.0.0.192)
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4, deprecated
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
# All assigned global unicast addresses. Outside are loopback, unspecified, mapped and compatible IPv4 (::/8), NAT64
# (64:ff9b::/96, 64:ff9b:1::/48), discard (100::/64), segment routing (5f00::/16), unique local (fc00::/7), link-local
# (fe80::/10), site-local (fec0::/10), multicast (ff00::/8), and unassigned addresses.
_GLOBAL_IPV6 = IPv6Network("2000::/3")
_NOT_PUBLIC_IPV6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments: Teredo, which holds an IPv4 address, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: holds an IPv4 address, which may be private
        "3fff::/20",  # documentation
    )
)
# Networks that no public router forwards to: the same machine, the same link, private networks and the carrier's.
_PRIVATE: tuple[Network, ...] = tuple(
    ip_network(network)
    for network in (
        *("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"),
        *("::1/128", "fc00::/7", "fe80::/10"),
    )
)
# ISATAP (RFC 5214): under any prefix, an interface identifier that holds an IPv4 address.
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})


def is_global(address: Address) -> bool:
    """Tell whether an address is public exactly as it is written.

    An IPv6 address that holds an IPv4 one (mapped, NAT64, 6to4, Teredo, ISATAP) is not: a kernel or a router may
    extract and use that one.
    """
    if isinstance(address, IPv4Address):
        public = not any(address in network for network in _NOT_PUBLIC_IPV4)
    else:
        public = (
            address.scope_id is None
            and address in _GLOBAL_IPV6
            and not any(address in network for network in _NOT_PUBLIC_IPV6)
            and int(address) >> 32 & 0xFFFF_FFFF not in _ISATAP
        )
    return public and address.is_global


def is_private(address: Address) -> bool:
    """Tell whether packets to an address stay in a network of the operator's or of his carrier's.

    Not the opposite of public: an address that holds a public one (NAT64, 6to4) is neither.
    """
    return any(unmap_address(address) in network for network in _PRIVATE)


def may_dial(address: Address, networks: Iterable[Network], addresses: Iterable[Address]) -> bool:
    """Tell whether an address may be dialled: it is public, or the operator named it or its network.

    A mapped IPv4 address counts as the IPv4 address here, because the kernel dials that.
    """
    return is_global(unmap_address(address)) or is_named(address, networks, addresses)


def is_named(address: Address, networks: Iterable[Network], addresses: Iterable[Address]) -> bool:
    """Tell whether the operator named an address or its network."""
    dialled = unmap_address(address)
    return any(dialled == unmap_address(named) for named in addresses) or any(
        dialled in network for network in networks
    )


def unmap_address(address: Address) -> Address:
    """The address that the kernel dials: for a mapped one, the IPv4 address."""
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
