"""No spelling of an address that is not public is taken for a public one."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.outbound import is_public, may_connect

# https://www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry, and multicast
SPECIAL_4 = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
    "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
)  # fmt: skip
SPECIAL_6 = (
    "::/96", "::1/128", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23", "2001::/32", "2001:2::/48",
    "2001:10::/28", "2001:20::/28", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7",
    "fe80::/10", "fec0::/10", "ff00::/8", "::ffff:0:0:0/96", "4000::/3", "e000::/4",
)  # fmt: skip
PUBLIC = (
    "1.1.1.1",
    "93.184.216.34",
    "2606:4700::1111",
    "64:ff9b::101:101",
    "2002:101:101::1",
    "::ffff:1.1.1.1",
)


def addresses_in(
    networks: tuple[str, ...],
) -> st.SearchStrategy[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    def drawn(text: str) -> st.SearchStrategy[ipaddress.IPv4Address | ipaddress.IPv6Address]:
        network = ip_network(text)
        return st.integers(0, network.num_addresses - 1).map(lambda number: network[number])

    return st.sampled_from(networks).flatmap(drawn)


@given(addresses_in(SPECIAL_4 + SPECIAL_6))
def test_no_address_of_a_special_registry_is_public(address: IPv4Address | IPv6Address) -> None:
    assert not is_public(str(address))


@given(addresses_in(SPECIAL_4), st.integers(0, 2**80 - 1))
def test_no_address_that_embeds_one_is_public(address: IPv4Address, rest: int) -> None:
    number = int(address)
    for base in (ip_network("::ffff:0:0/96"), ip_network("64:ff9b::/96"), ip_network("::/96")):
        assert not is_public(str(IPv6Address(int(base.network_address) | number)))
    assert not is_public(str(IPv6Address((0x2002 << 112) | (number << 80) | rest)))
    for marker in (0x0000_5EFE, 0x0200_5EFE):
        prefix = int(IPv6Address("2606:4700::")) | (marker << 32)
        assert not is_public(str(IPv6Address(prefix | number)))


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_what_python_does_not_take_for_global_is_not_public(address: IPv4Address | IPv6Address) -> None:
    embeds = isinstance(address, IPv6Address) and (address.ipv4_mapped or address.sixtofour)
    assert address.is_global or embeds or not is_public(str(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_the_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    ("entry", "host", "port", "address", "allowed"),
    [
        ("10.0.0.0/8", "git.lan", 80, "10.1.2.3", True),
        ("10.0.0.0/8", "git.lan", 80, "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "git.lan", 80, "192.168.0.1", False),
        ("git.lan", "GIT.lan.", 3000, "10.1.2.3", True),
        ("git.lan:3000", "git.lan", 3000, "10.1.2.3", True),
        ("git.lan:3000", "git.lan", 22, "10.1.2.3", False),
        ("git.lan", "other.lan", 80, "10.1.2.3", False),
        ("lan", "git.lan", 80, "10.1.2.3", False),
        ("10.0.0.5:8080", "x", 8080, "10.0.0.5", True),
        ("10.0.0.5:8080", "x", 80, "10.0.0.5", False),
        ("[fd00::1]:80", "x", 80, "fd00::1", True),
        ("[fd00::1]:80", "x", 81, "fd00::1", False),
        ("fd00::1", "x", 81, "fd00::1", True),
        ("::1", "x", 81, "127.0.0.1", False),
    ],
)
def test_an_allowed_place_is_meant_as_it_is_written(
    entry: str, host: str, port: int, address: str, allowed: bool
) -> None:
    assert may_connect(host, port, address, [entry]) is allowed
