"""Addresses that people name and the platform connects to: none in a private network unless an operator allows it, and
never one of the platform's own."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from django.conf import settings

from platform_core.outbound import parse, split
from trainmaster import gate, outbound
from trainmaster.outbound import DEADLINE, LEAST_RATE, MOST_BYTES, NoAnswer, WholeAnswer

__all__ = ["NoAnswer", "addresses", "request", "resolve"]

_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "redis": 6379, "rediss": 6379}


def request(
    method: str, url: str, *, headers: Mapping[str, str] | None = None, content: bytes = b"",
    deadline: float = DEADLINE, most_bytes: int = MOST_BYTES, least_rate: int = LEAST_RATE, redirects: int = 0,
) -> WholeAnswer:  # fmt: skip
    """One request to a server that a person named: over within `deadline` seconds from the look-up of its name to the
    last byte, of `most_bytes` at most, at `least_rate` bytes a second or more, through no more `redirects`.

    Raises NoAnswer with a clause that names the host, and TrainmasterError of request_invalid for an address that may
    not be asked, also behind a redirect.
    """
    return outbound.request(
        method, url, resolve=addresses, headers=headers, content=content, deadline=deadline, most_bytes=most_bytes,
        least_rate=least_rate, redirects=redirects,
    )  # fmt: skip


def resolve(host: str, port: int) -> str:
    """The address to connect to. Connect to it and not to the name, which may have another address a moment later.

    Raises TrainmasterError of request_invalid for a name that has no address, and for an address of the platform
    itself, on this machine or in a private network that TRAINMASTER_OUTBOUND_HOSTS does not allow.
    """
    return min(addresses(host, port), key=lambda address: ":" in address)  # IPv4 first


def addresses(host: str, port: int) -> list[str]:
    """As `resolve`, all of them in the order to try."""
    found = gate.addresses(host, port, settings.OUTBOUND_HOSTS)
    for address in found:
        if _is_own(host, port, address):
            raise gate.refused(host, f"port {port} of {address} is this platform itself")
    return found


def _is_own(host: str, port: int, address: str) -> bool:
    """Whether a part of the platform listens there. An operator who serves something else at the same address and port
    by its name, behind one proxy, says so by NAME:PORT."""
    own = [place for place, its_port in _own_places() if its_port == port]
    if not own:
        return False
    if is_of_this_machine(address):
        return True
    named = any(split(entry) == (host.lower(), port) for entry in settings.OUTBOUND_HOSTS)
    return not named and any(parse(address) in _addresses_of(place) for place in own)


def is_of_this_machine(address: str) -> bool:
    """Whether a socket can be bound to it, as to every address of this machine and to no other."""
    ip = parse(address)
    if ip.is_loopback or ip.is_unspecified:
        return True
    family = socket.AF_INET if ip.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(ip), 0))
        except OSError:
            return False
    return True


def _own_places() -> Iterator[tuple[str, int]]:
    """Host and port of each part of the platform that the settings name."""
    for url in (settings.PUBLIC_URL, settings.PROBE_URL, settings.ROUTER_URL, settings.REDIS_URL):
        parts = urlsplit(url)
        if port := parts.port or _PORTS.get(parts.scheme):
            yield parts.hostname or "", port
    database = settings.DATABASES["default"]
    yield str(database["HOST"]), int(database["PORT"] or _PORTS["postgresql"])
    for listen in (
        settings.GATEWAY_LISTEN, settings.GATEWAY_ADDRESS, settings.ROUTER_GRPC_LISTEN,
        settings.GATEWAY_METRICS_LISTEN, settings.WORKER_METRICS_LISTEN,
    ):  # fmt: skip
        host, listens_at = split(listen)
        if listens_at:
            yield host, listens_at


@lru_cache(maxsize=32)
def _addresses_of(place: str) -> frozenset[object]:
    """Kept: the platform's own names lead to the same addresses while it runs."""
    try:
        return frozenset(parse(str(entry[4][0])) for entry in socket.getaddrinfo(place, None))
    except (OSError, UnicodeError):
        return frozenset()
