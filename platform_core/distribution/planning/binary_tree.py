"""A binary tree: few hops, but each inner node sends everything twice, so nobody receives faster than half a link."""

from __future__ import annotations

from platform_core.distribution.planning.routes import Link, Place, in_rack_order


def plan(places: tuple[Place, ...]) -> tuple[Link, ...]:
    """The root pulls from the store; a worker whose parent is gone turns to its grandparent."""
    ordered = in_rack_order(places)
    links = []
    for position, node in enumerate(ordered):
        ancestors, above = [], position
        while above:
            above = (above - 1) // 2
            ancestors.append(ordered[above])
        links.append(Link(node, position, tuple(ancestors)))
    return tuple(links)
