"""Windows: what lanes received between two reports of the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from platform_core.distribution.planning.forest import STORE, Seat

NOTICED = 20  # this part of what a lane gets in a window may be left behind unnoticed


@dataclass(frozen=True, slots=True)
class Seen:
    """One report of a node: how much of each lane it holds, in any one unit."""

    at_ms: int
    held: tuple[float, ...]


Rates: TypeAlias = Mapping[str, tuple[float, ...]]  # by node, what it got a second in each lane


@dataclass(frozen=True, slots=True)
class Window:
    """Two reports of each node. `jitter_ms`: the counts of a lane may be off by what it receives in that time."""

    before: Mapping[str, Seen]
    now: Mapping[str, Seen]
    rates: Rates
    jitter_ms: int = 0

    def seconds(self, node: str) -> float:
        return (self.now[node].at_ms - self.before[node].at_ms) / 1000

    def offered(self, node: str, lane: int, parent: str) -> float:
        """What the parent had and the node lacked, as of the node's report. The store has everything."""
        if parent == STORE:
            return inf
        late = (self.now[node].at_ms - self.now[parent].at_ms) / 1000
        return self.now[parent].held[lane] + self.rates[parent][lane] * late - self.before[node].held[lane]

    def left(self, node: str, lane: int, parent: str, a_second: float) -> bool:
        """True if it took less than it was offered, given what the lane receives per second."""
        seconds = self.seconds(node)
        took = self.now[node].held[lane] - self.before[node].held[lane]
        noticed = a_second * (seconds / NOTICED + self.jitter_ms / 1000)
        return min(a_second * seconds, self.offered(node, lane, parent)) - took > noticed


def rates_of(before: Mapping[str, Seen], now: Mapping[str, Seen], seats: Mapping[str, Seat]) -> Rates:
    """Rates of the nodes that reported anew and have not lost what they held."""
    return {
        node: tuple(
            (b - a) * 1000 / (seen.at_ms - old.at_ms) for a, b in zip(old.held, seen.held, strict=True)
        )
        for node, seen in sorted(now.items())
        if node in seats
        and (old := before.get(node))
        and seen.at_ms > old.at_ms
        and len(seen.held) == len(old.held)
        and sum(seen.held) >= sum(old.held)
    }
