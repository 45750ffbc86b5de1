"""A chain in rack order: each node receives from the one before and passes pieces on while it receives.

Ordered by block and rack, the chain crosses into each rack once. The time is that of one copy plus one piece
for each further hop: M + N - 1 rounds for M pieces and N workers, near the bound while N is far below M.
"""

from __future__ import annotations

from platform_core.distribution.planning.routes import Link, Place, in_rack_order

MAX_PREDECESSORS = 8


def plan(places: tuple[Place, ...]) -> tuple[Link, ...]:
    """The chain, first node first. Beyond its neighbours a worker knows the head, then the store."""
    return pipeline(in_rack_order(places))


def pipeline(ordered: list[str], first_position: int = 0) -> tuple[Link, ...]:
    """A chain of these nodes in this order."""
    links = []
    for number, node in enumerate(ordered):
        nearest = ordered[max(0, number - MAX_PREDECESSORS) : number][::-1]
        if number > MAX_PREDECESSORS:
            nearest[-1] = ordered[0]
        links.append(Link(node, first_position + number, tuple(nearest)))
    return tuple(links)
