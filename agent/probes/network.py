"""Which network interface other nodes reach this one by."""

from __future__ import annotations

import socket

import psutil


def interface_of(address: str) -> str:
    """The interface that has this address; '' if it cannot be found, so that the libraries choose."""
    try:
        addresses_of_host = socket.getaddrinfo(address, None)
    except OSError:
        return ""
    wanted = {str(entry[4][0]) for entry in addresses_of_host}
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address.split("%")[0] in wanted for each in addresses):
            return name
    return ""


def link_bytes_per_second(interface: str) -> float:
    """What the driver says of the interface; 0 where it does not say, as for a loopback."""
    status = psutil.net_if_stats().get(interface)
    return status.speed * 125_000.0 if status is not None else 0.0
