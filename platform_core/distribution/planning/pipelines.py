"""A tree of pipelines: chains of bounded length, each head feeding its own chain and the head of the next one.

A chain of very many nodes pays one piece time for each hop. Cut into pipelines, the hops run side by side, but a
head sends twice and so the whole runs at half a link: it wins only where N piece times exceed one whole copy.
"""

from __future__ import annotations

from platform_core.distribution.planning.chain import pipeline
from platform_core.distribution.planning.routes import Link, Place, in_rack_order

LONGEST = 1000


def plan(places: tuple[Place, ...], longest: int = LONGEST) -> tuple[Link, ...]:
    """Pipelines of nearly equal length, at most `longest` nodes each."""
    ordered = in_rack_order(places)
    count = -(-len(ordered) // longest)
    links: list[Link] = []
    heads: list[str] = []
    for number in range(count):
        first, end = (len(ordered) * n // count for n in (number, number + 1))
        chain = pipeline(ordered[first:end], first)
        if heads:
            chain = (Link(chain[0].node, first, tuple(reversed(heads[-8:]))), *chain[1:])
        heads.append(chain[0].node)
        links.extend(chain)
    return tuple(links)
