"""The binding constraint: the condition of a job without which it would have a place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from platform_core.jobs.constraints import ANYWHERE, Constraints
from platform_core.scheduling.placement.node_index import Demand, NodeIndex
from platform_core.scheduling.placement.search import Place
from platform_core.scheduling.wording import listed
from platform_core.units import plural

Find = Callable[[Demand], Place | None]


@dataclass(frozen=True, slots=True)
class Bound:
    condition: str  # the field of the job's description
    nodes: int  # how many it would use without the condition
    sentence: str


def binding(index: NodeIndex, demand: Demand, find: Find) -> Bound | None:
    """The first condition without which `find` has a place for the demand."""
    wanted = demand.constraints
    if wanted == ANYWHERE and not index.taints_on(index.of_type(demand.gpu_type)):
        return None
    for condition, relaxed in relaxations(index, wanted).items():
        place = find(replace(demand, constraints=relaxed)) if relaxed != wanted else None
        if place is not None:
            return Bound(condition, len(place.nodes), _sentence(index, demand, condition, place))
    return None


def relaxations(index: NodeIndex, wanted: Constraints) -> dict[str, Constraints]:
    """Field of the job's description → its constraints without that one."""
    return {
        "node_labels": wanted._replace(labels=()),
        "tolerations": wanted._replace(tolerations=index.taints_on(index.all)),
        "excluded_nodes": wanted._replace(excluded_nodes=()),
        "max_racks": wanted._replace(max_racks=0),
    }


def _sentence(index: NodeIndex, demand: Demand, condition: str, place: Place) -> str:
    wanted = demand.constraints
    if condition == "max_racks":
        return f"it would fit on {len(place.nodes)} nodes, but in more racks than the {wanted.max_racks} it may use"
    barred = [
        number for number in place.nodes if not index.admitting(wanted._replace(max_racks=0)) >> number & 1
    ]
    nodes = [index.nodes[number] for number in barred]
    have = f"{plural(len(nodes), 'node')} ({listed([node.hostname for node in nodes])})"
    have = f"{have} {'has' if len(nodes) == 1 else 'have'} {place.slots_each} that would do, but"
    if condition == "node_labels":
        missing = [
            f"{name}={value}"
            for name, value in wanted.labels
            if any((name, value) not in node.labels for node in nodes)
        ]
        return f"{have} not the label{'' if len(missing) == 1 else 's'} {' and '.join(missing)}"
    if condition == "tolerations":
        taints = sorted({taint for node in nodes for taint in node.taints} - set(wanted.tolerations))
        return f"{have} the taint{'' if len(taints) == 1 else 's'} {' and '.join(taints)}, which it does not tolerate"
    return f"{have} the job excludes {'it' if len(nodes) == 1 else 'them'}"
