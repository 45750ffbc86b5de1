"""Addresses that people name and the platform connects to: none in a private network, unless an operator allows it."""

from __future__ import annotations

import ipaddress
import socket

from django.conf import settings

from platform_core.errors import TrainmasterError


def resolve(host: str, port: int) -> str:
    """The address to connect to. Connect to it and not to the name, which may have another address a moment later.

    Raises TrainmasterError of request_invalid for a name that has no address, and for an address on this machine or in
    a private network that TRAINMASTER_OUTBOUND_HOSTS does not allow.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise _refused(host, "it has no address; check how it is written") from error
    addresses = sorted({str(entry[4][0]).partition("%")[0] for entry in found})
    for address in addresses:
        if not allows(host, address):
            why = (
                f"{address} lies in a private network; an operator can allow it in TRAINMASTER_OUTBOUND_HOSTS"
            )
            raise _refused(host, why)
    return addresses[0]


def allows(host: str, address: str) -> bool:
    """Whether the address is public, or it or the host's name is allowed by the operator."""
    parsed = ipaddress.ip_address(address)
    mapped = getattr(parsed, "ipv4_mapped", None)
    parsed = mapped or parsed
    if parsed.is_global and not parsed.is_multicast:
        return True
    return any(_covers(entry, host, parsed) for entry in settings.OUTBOUND_HOSTS)


def _covers(entry: str, host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        return address in ipaddress.ip_network(entry)
    except ValueError:
        return entry.lower() == host.lower()


def _refused(host: str, why: str) -> TrainmasterError:
    return TrainmasterError("request_invalid", what=f"the host {host}", why=why)
