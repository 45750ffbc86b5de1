"""Which addresses this process connects to for people: those of the public internet, unless it was told of others."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence

from platform_core.errors import TrainmasterError
from platform_core.outbound import may_connect

Resolve = Callable[[str, int], Sequence[str]]  # the addresses to try for a host and port, or an error


def addresses(host: str, port: int, allowed: Iterable[str] = ()) -> list[str]:
    """Where the host is, in the order to try. Raises TrainmasterError for a name that has no address, and for one that
    leads to an address that is neither public nor allowed by the operator."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise refused(host, "it has no address; check how it is written") from error
    places = [*dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found)]
    for address in places:
        if not may_connect(host, port, address, allowed):
            why = (
                f"{address} lies in a private network; an operator can allow it in TRAINMASTER_OUTBOUND_HOSTS"
            )
            raise refused(host, why)
    return places


def anywhere(host: str, port: int) -> list[str]:
    """As `addresses`, for a host that an operator named."""
    return addresses(host, port, ("0.0.0.0/0", "::/0"))


_installed: Resolve = addresses


def install(resolve: Resolve) -> None:
    """Every store at an http address that this process has or opens asks it, also at each redirect."""
    global _installed
    _installed = resolve


def installed(host: str, port: int) -> Sequence[str]:
    return _installed(host, port)


def refused(host: str, why: str) -> TrainmasterError:
    return TrainmasterError("request_invalid", what=f"the host {host}", why=why)
