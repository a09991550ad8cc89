"""The guard against requests to what is not public (SSRF)."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.policy.hosts.addresses import is_global, may_dial

NOT_PUBLIC = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "168.63.129.16/32",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "255.255.255.255/32",
    "::/128",
    "::1/128",
    "::/96",
    "::ffff:0:0/96",
    "::ffff:0:0:0/96",
    "64:ff9b::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "2001::/32",
    "2001:2::/48",
    "2001:10::/28",
    "2001:20::/28",
    "2001:db8::/32",
    "2002::/16",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fd00:ec2::254/128",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2001:4860:4860::8888",
    "2606:4700:4700::1111",
    "2a00:1450:4001:80b::200e",
    "2003::1",
    "2400:cb00::1",
]
PRIVATE_IPV4 = [network for network in map(ip_network, NOT_PUBLIC) if isinstance(network, IPv4Network)]


def holding(address: IPv4Address) -> list[IPv6Address]:
    """The IPv6 addresses that some kernel or router takes apart into this one."""
    number = int(address)
    return [
        IPv6Address(number),  # compatible
        IPv6Address(0xFFFF << 32 | number),  # mapped
        IPv6Address(0xFFFF << 48 | number),  # translated
        IPv6Address(int(IPv6Address("64:ff9b::")) | number),  # NAT64
        IPv6Address(int(IPv6Address("64:ff9b:1::")) | number),
        IPv6Address(0x2002 << 112 | number << 80 | 1),  # 6to4
        IPv6Address(0x20010000 << 96 | number ^ 0xFFFFFFFF),  # Teredo
        IPv6Address(0x2600 << 112 | 0x5EFE << 32 | number),  # ISATAP
        IPv6Address(0x2600 << 112 | 0x02005EFE << 32 | number),
    ]


@pytest.mark.parametrize("network", NOT_PUBLIC)
@given(data=st.data())
def test_no_address_of_a_network_that_is_not_public_is_dialled(network, data):
    """N4: whatever DNS says."""
    network = ip_network(network)
    first, last = int(network[0]), int(network[-1])
    for number in (first, last, data.draw(st.integers(first, last))):
        address = type(network[0])(number)
        assert not is_global(address)
        if getattr(address, "ipv4_mapped", None) is None:
            assert not may_dial(address, (), ())


@for_each("address", PUBLIC)
def test_public_addresses_up_to_the_edges_of_the_others_are_dialled(address):
    """N4: and no more is refused than has to be."""
    assert is_global(ip_address(address))
    assert may_dial(ip_address(address), (), ())


@given(address=st.sampled_from(PRIVATE_IPV4).flatmap(lambda network: st.ip_addresses(network=network)))
@example(address=IPv4Address("169.254.169.254"))
@example(address=IPv4Address("127.0.0.1"))
def test_a_private_address_does_not_slip_through_inside_another_one(address):
    """N4: v4-mapped, NAT64, 6to4, Teredo and ISATAP forms."""
    assert not any(may_dial(held, (), ()) for held in holding(address))


@given(address=st.ip_addresses(v=4))
def test_an_address_that_holds_another_is_never_public_itself(address):
    """N4: a mapped address is judged as what the kernel dials; the others are refused."""
    assert not any(is_global(held) for held in holding(address))
    mapped = holding(address)[1]
    assert may_dial(mapped, (), ()) is is_global(address)


@given(address=st.ip_addresses(v=6))
def test_an_address_with_a_zone_is_never_public(address):
    """N4: a zone belongs to one machine."""
    assert not is_global(IPv6Address(f"{address}%eth0"))


@given(address=st.ip_addresses())
def test_nothing_is_public_that_python_says_is_not(address):
    """N4: the second net."""
    assert address.is_global or not is_global(address)


def test_the_operator_can_name_networks_and_addresses_that_are_not_public():
    """N4: private hosts on purpose."""
    networks = (IPv4Network("10.1.0.0/16"), IPv6Network("fd12::/16"))
    addresses = (IPv4Address("192.168.1.5"), IPv6Address("::ffff:192.168.1.6"))
    yes = ["10.1.2.3", "fd12::1", "192.168.1.5", "192.168.1.6", "::ffff:10.1.2.3", "::ffff:192.168.1.5", "8.8.8.8"]
    no = ["10.2.0.1", "fd13::1", "192.168.1.7", "::ffff:10.2.0.1", "::10.1.2.3", "64:ff9b::a01:203", "127.0.0.1"]
    assert all(may_dial(ip_address(address), networks, addresses) for address in yes)
    assert not any(may_dial(ip_address(address), networks, addresses) for address in no)
