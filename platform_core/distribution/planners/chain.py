"""A chain in rack order: each node receives from the one before and passes pieces on while it receives.

Ordered by block and rack, the chain crosses into each rack once. The time is that of one copy plus one piece
for each further hop: M + N - 1 rounds for M pieces and N workers, near the bound while N is far below M.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

MAX_PREDECESSORS = 8


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker stands."""

    node: str
    rack: str = ""
    block: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """One worker's place: it receives from the first of `predecessors` that lives, else from the store."""

    node: str
    position: int
    predecessors: tuple[str, ...]


def plan(places: tuple[Place, ...]) -> tuple[Link, ...]:
    """The chain, first node first. Beyond its neighbours a worker knows the head, then the store."""
    ordered = [place.node for place in sorted(places, key=lambda p: (p.block, p.rack, p.node))]
    links = []
    for position, node in enumerate(ordered):
        nearest = ordered[max(0, position - MAX_PREDECESSORS) : position][::-1]
        if position > MAX_PREDECESSORS:
            nearest[-1] = ordered[0]
        links.append(Link(node, position, tuple(nearest)))
    return tuple(links)


def crossings(places: tuple[Place, ...]) -> int:
    """How many hops of the chain lead from one rack to another."""
    ordered = sorted(places, key=lambda p: (p.block, p.rack, p.node))
    return sum((a.block, a.rack) != (b.block, b.rack) for a, b in pairwise(ordered))


def estimate_ms(total_bytes: int, workers: int, rate: int, piece_size: int) -> int:
    """At `rate` bytes per second on every link: one copy, then one piece more for each hop."""
    if rate <= 0:
        raise ValueError(f"the rate is {rate} bytes per second, it must be positive")
    if workers <= 0 or total_bytes <= 0:
        return 0
    last_piece = min(piece_size, total_bytes)
    return -(-(total_bytes + (workers - 1) * last_piece) * 1000 // rate)
