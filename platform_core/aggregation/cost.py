"""What each way of aggregation costs, before it is tried: samples a second, bytes, and what limits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Way(StrEnum):
    ALL_REDUCE = "all-reduce"
    SYNCHRONOUS = "synchronous"
    BOUNDED = "stale-synchronous"
    ASYNCHRONOUS = "asynchronous"
    LOCAL = "local"  # local SGD, DiLoCo


@dataclass(frozen=True, slots=True)
class Workers:
    """`seconds`: of each worker, to compute one gradient. `link`: bytes/s of a worker's and of a server's link, in each
    direction."""

    seconds: Sequence[float]
    link: float
    servers: int = 1


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one gradient of each worker on average."""

    seconds: float  # in which the workers compute as many gradients as they are
    bytes_moved: float  # over links of workers, both directions
    limited_by: str


BACKWARD = 2 / 3  # of the computation of a step


def cost(way: Way, workers: Workers, size: int, ratio: float = 1.0, every: int = 1) -> Cost:
    """`size`: bytes of the parameters; `ratio`: of a compressed gradient to it; `every`: local steps between two
    exchanges.

    Ring all-reduce: 2 (r - 1)/r of the bytes through each link (Thakur et al. 2005), of which DDP hides what the
    backward pass takes (Li et al. 2020, arXiv 2006.15704); an exchange of local training comes behind it. A parameter
    server takes the gradients of all workers through its own link, and sends parameters back by the other direction, so
    that it limits once workers x bytes exceed what it takes while they compute.
    """
    count, slowest = len(workers.seconds), max(workers.seconds)
    if way in (Way.ALL_REDUCE, Way.LOCAL):
        sent = 2 * (count - 1) / count * size / every
        hidden = BACKWARD * slowest if way is Way.ALL_REDUCE else 0.0
        exchange = max(0.0, sent / workers.link - hidden)
        return Cost(slowest + exchange, 2 * count * sent, _limit(exchange, slowest))
    push, pull = ratio * size, float(size)
    bytes_moved = count * (push + pull)
    at_servers = count * max(push, pull) / (workers.servers * workers.link)
    if way is Way.SYNCHRONOUS:  # the fast push while the slow compute; then all pull at once
        seconds = _pushed(workers, push) + max(at_servers * pull / max(push, pull), pull / workers.link)
        return Cost(seconds, bytes_moved, _limit(seconds - slowest, slowest))
    alone = (push + pull) / workers.link
    if way is Way.BOUNDED:  # over many steps all workers go as fast as the slowest
        paced = slowest + alone
    else:
        paced = count / sum(1 / (seconds + alone) for seconds in workers.seconds)
    if at_servers > paced:
        return Cost(at_servers, bytes_moved, "the link of the servers")
    return Cost(paced, bytes_moved, "the slowest worker" if way is Way.BOUNDED else "computation")


def _pushed(workers: Workers, push: float) -> float:
    """When the servers have all gradients: of none sooner than its worker's link lets it come, and from each moment on
    no faster than their own links take what is still to come."""
    rate = workers.servers * workers.link
    count = len(workers.seconds)
    return max(
        done + max(push / workers.link, (count - place) * push / rate)
        for place, done in enumerate(sorted(workers.seconds))
    )


def _limit(exchange: float, slowest: float) -> str:
    return "communication" if exchange > slowest else "the slowest worker"
