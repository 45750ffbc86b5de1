"""Which nodes hash the files of large registrations: those that have nothing to train, a few for each."""

from __future__ import annotations

from platform_core.cluster.health import NodeState
from webapp.datasets import services as datasets
from webapp.nodes import queries as node_queries
from webapp.nodes import services as nodes

MOST_HELPERS = 8  # of a registration; more would take the source from those who train on it


def ask() -> None:
    """Nodes that began to train are let go, idle ones take their place. A node hashes for one registration."""
    training = {slot.node for slot in node_queries.books() if slot.attempt}
    idle = [
        node.id
        for node in node_queries.summaries()
        if node.state is NodeState.READY and node.id not in training
    ]
    changed: set[str] = set()
    for row in datasets.hashed_registrations():
        changed |= row.helpers.keys()
        datasets.set_hashers(row, {})
    for row in datasets.registrations_to_hash():
        helpers = {node: why for node, why in row.helpers.items() if why or node in idle}
        more = MOST_HELPERS - sum(not why for why in helpers.values())
        free = [node for node in idle if node not in helpers]
        helpers |= dict.fromkeys(free[: max(0, more)], "")
        idle = [node for node in idle if helpers.get(node, "not asked")]
        changed |= row.helpers.keys() ^ helpers.keys()
        if helpers != row.helpers:
            datasets.set_hashers(row, helpers)
    nodes.touch(changed)
