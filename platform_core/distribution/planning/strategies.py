"""Every strategy as a forest, so that nodes get one kind of plan and repair it in one way."""

from __future__ import annotations

from collections.abc import Sequence

from platform_core.distribution.planning import mesh
from platform_core.distribution.planning.estimate import STRATEGIES
from platform_core.distribution.planning.forest import STORE, Forest, Seat
from platform_core.distribution.planning.routes import Place

MESH, AUTO = "mesh", "auto"
NAMES = (MESH, *STRATEGIES)


def grow(strategy: str, places: Sequence[Place]) -> Forest:
    """Of one lane, except for the mesh. KeyError for a strategy that does not exist."""
    if strategy == MESH:
        return mesh.plan(places)
    where = {place.node: place for place in places}
    seats = []
    for link in STRATEGIES[strategy](tuple(places)):
        parent = link.predecessors[0] if link.predecessors else STORE
        seats.append(Seat(link.node, (where[link.node].block, where[link.node].rack), (parent,)))
    return Forest(1, tuple(seats))
