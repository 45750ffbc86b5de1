"""Which addresses may be connected to on behalf of people: public ones, and those that an operator names."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Ip = IPv4Address | IPv6Address

# The special-purpose registries of IANA, whatever this version of Python knows of them. Those that are reachable
# everywhere by the registry are for protocols and serve no files, so they are left out as well.
_SPECIAL_4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
        "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16",
        "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "168.63.129.16/32",  # public by its number, and the metadata service of every machine at Azure
    )
)  # fmt: skip
_UNICAST_6 = IPv6Network("2000::/3")  # all that has been given out as global unicast
_SPECIAL_6 = tuple(
    IPv6Network(text)
    for text in ("2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20")  # Teredo is in the first
)
# Where an IPv6 address carries an IPv4 address that a gateway connects to: the network, and the bits behind it.
_EMBEDDING = (
    (IPv6Network("::ffff:0:0/96"), 0),
    (IPv6Network("64:ff9b::/96"), 0),
    (IPv6Network("2002::/16"), 80),
)
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)  # bits 64 to 95, before an IPv4 address


def parse(address: str) -> Ip:
    """The address that is really connected to: without a zone, and the IPv4 address inside an IPv6 one."""
    return _unwrapped(ipaddress.ip_address(address.partition("%")[0]))


def is_public(address: str) -> bool:
    """Whether it is global unicast, also by what it embeds."""
    ip = parse(address)
    if isinstance(ip, IPv4Address):
        return not any(ip in network for network in _SPECIAL_4)
    if ip not in _UNICAST_6 or any(ip in network for network in _SPECIAL_6):
        return False
    embedded = int(ip) & 0xFFFF_FFFF
    return (int(ip) >> 32) & 0xFFFF_FFFF not in _ISATAP or is_public(str(IPv4Address(embedded)))


def may_connect(host: str, port: int, address: str, allowed: Iterable[str]) -> bool:
    """Whether the address is public, or the operator allows the address or the host: NAME, ADDRESS or NETWORK, each
    for all ports, or with :PORT for one."""
    return is_public(address) or any(covers(entry, host, port, address) for entry in allowed)


def covers(entry: str, host: str, port: int, address: str) -> bool:
    place, only = split(entry)
    if only is not None and only != port:
        return False
    try:
        network = ipaddress.ip_network(place, strict=False)
    except ValueError:
        return _name(place) == _name(host)
    ip = parse(address)
    if isinstance(network, IPv6Network) and network.prefixlen == network.max_prefixlen:
        return ip == _unwrapped(network.network_address)
    return ip in network


def split(entry: str) -> tuple[str, int | None]:
    """The place and the port of NAME, NAME:PORT, ADDRESS:PORT or [ADDRESS]:PORT; no port is all of them."""
    place, colon, port = entry.rpartition(":")
    if colon and port.isdecimal() and ":" not in place.strip("[]"):
        return place.strip("[]"), int(port)
    if place.startswith("[") and place.endswith("]") and port.isdecimal():
        return place[1:-1], int(port)
    return entry.strip("[]"), None


def _name(host: str) -> str:
    return host.rstrip(".").lower()


def _unwrapped(ip: Ip) -> Ip:
    if isinstance(ip, IPv6Address):
        for network, shift in _EMBEDDING:
            if ip in network:
                return IPv4Address((int(ip) >> shift) & 0xFFFF_FFFF)
    return ip
