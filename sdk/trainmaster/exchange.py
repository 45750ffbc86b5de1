"""The nodes of a gang tell each other their addresses: all to the first, which answers each with all of them.

A process that speaks for another attempt, such as one that an earlier attempt left, is turned away.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress

from platform_core.jobs.launching import Address

RETRY_SECONDS = 0.2
SPEAK_SECONDS = 10  # for one line from a node that is connected
MAX_BYTES = 1_000_000


class ExchangeFailed(Exception):
    """Not all nodes came; the message is a sentence."""


def exchange(
    attempt: str,
    ports: Sequence[int],
    node_rank: int,
    nodes: int,
    master: Address,
    seconds: float,
    pause: Callable[[float], None] = time.sleep,
) -> list[Address]:
    """Returns the addresses of all processes in the order of their ranks. `ports`: those of this node's processes."""
    if nodes == 1:
        return [Address(master.host, port) for port in ports]
    deadline = time.monotonic() + seconds
    offer = {"attempt": attempt, "node_rank": node_rank, "ports": list(ports)}
    told = _gather(offer, nodes, master, deadline) if node_rank == 0 else _ask(offer, master, deadline, pause)
    return [Address(host, port) for host, ports in told for port in ports]


Told = list[tuple[str, list[int]]]


def _gather(offer: dict[str, object], nodes: int, master: Address, deadline: float) -> Told:
    family = socket.AF_INET6 if ":" in master.host else socket.AF_INET
    offers = {0: (master.host, offer["ports"])}
    callers: list[socket.socket] = []
    with socket.create_server(("", master.port), family=family, backlog=nodes) as server:
        try:
            while len(offers) < nodes:
                server.settimeout(max(0.0, deadline - time.monotonic()) or 0.001)
                try:
                    caller, (host, *_) = server.accept()
                except TimeoutError:
                    missing = ", ".join(str(rank) for rank in range(nodes) if rank not in offers)
                    raise ExchangeFailed(f"Node {missing} of {nodes} did not come in time.") from None
                heard = _line(caller)
                rank = heard.get("node_rank")
                if (
                    heard.get("attempt") != offer["attempt"]
                    or not isinstance(rank, int)
                    or not 0 < rank < nodes
                ):
                    caller.close()
                    continue
                callers.append(caller)
                offers[rank] = (host, heard["ports"])
            told = [offers[rank] for rank in range(nodes)]
            for caller in callers:
                with suppress(OSError):  # it asks again, or its own node sees it end
                    caller.sendall(json.dumps(told).encode() + b"\n")
        finally:
            for caller in callers:
                caller.close()
    return told  # type: ignore[return-value]


def _ask(offer: dict[str, object], master: Address, deadline: float, pause: Callable[[float], None]) -> Told:
    while time.monotonic() < deadline:
        try:
            with closing(
                socket.create_connection((master.host, master.port), timeout=SPEAK_SECONDS)
            ) as caller:
                caller.sendall(json.dumps(offer).encode() + b"\n")
                caller.settimeout(max(1.0, deadline - time.monotonic()))
                with caller.makefile("rb") as answer:
                    if line := answer.readline(MAX_BYTES):
                        return [(host, ports) for host, ports in json.loads(line)]
        except (OSError, ValueError):
            pass  # the first node is not there yet, or another attempt ends there
        pause(RETRY_SECONDS)
    raise ExchangeFailed(f"The first node did not answer at {master} in time.")


def _line(caller: socket.socket) -> dict[str, object]:
    caller.settimeout(SPEAK_SECONDS)
    try:
        with caller.makefile("rb") as file:
            heard = json.loads(file.readline(MAX_BYTES))
    except (OSError, ValueError):
        return {}
    sound = isinstance(heard, dict) and isinstance(heard.get("ports"), list)
    return heard if sound else {}
