"""How fast the nodes of one GPU type are, as far as the planner has to know: by the type's figures and their labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from django.db.models import Count

from platform_core.parallelism.hardware import Cluster, gpu_of
from platform_core.parallelism.request import GIGABIT
from webapp.nodes.models import Node

NETWORK, USUAL_GBIT, MOST_GBIT = "network-gbit", 400, 10**6  # label: what a node sends, in one direction
OVERSUBSCRIPTION, MOST_OVERSUBSCRIPTION = "oversubscription", 1_000  # label: of the network beyond its rack
USUAL_SLOTS = 8  # of a type that has no node


def node_of_type(gpu_type: str) -> Cluster | None:
    """The commonest node of the type, with the slowest network that a label of one states; None for a type of which no
    speed is known."""
    try:
        gpu = gpu_of(gpu_type)
    except ValueError:
        return None
    rows = list(
        Node.objects.filter(gpu_type=gpu_type, revoked_ms=None).annotate(size=Count("slots")).order_by("id")
    )
    sizes = Counter(row.size for row in rows if row.size)
    slots = max(sizes, key=lambda size: (sizes[size], size), default=USUAL_SLOTS)
    rate = min(_labels(rows, NETWORK, MOST_GBIT), default=USUAL_GBIT) * GIGABIT
    over = max(_labels(rows, OVERSUBSCRIPTION, MOST_OVERSUBSCRIPTION), default=1)
    return Cluster(gpu, 1, slots, rate, oversubscription=float(over))


def cluster_of(gpu_type: str, gpus: int) -> Cluster | None:
    """As much of such nodes as so many GPUs need."""
    node = node_of_type(gpu_type)
    return node and node.holding(gpus)


def cluster_at(gpu_type: str, seats: Sequence[tuple[Node, int]]) -> Cluster | None:
    """These nodes in order of rank, of each so many GPUs, in their racks. Nodes that give different numbers are taken
    as the fewest that hold all."""
    node = node_of_type(gpu_type)
    sizes = {gpus for _, gpus in seats}
    if not seats or node is None:
        return None
    if len(sizes) != 1:
        return node.holding(sum(gpus for _, gpus in seats))
    found: dict[tuple[str, str], int] = {}
    racks = tuple(found.setdefault((each.block, each.rack), len(found)) for each, _ in seats)
    part = node.holding(sizes.pop())
    return replace(part, nodes=len(seats), racks=racks if len(found) > 1 else ())


def _labels(rows: Iterable[Node], name: str, most: int) -> list[int]:
    """Whole numbers that labels of this name give; what is no such number counts as none."""
    told = [row.all_labels.get(name, "") for row in rows]
    return [int(text) for text in told if text.isascii() and text.isdigit() and 0 < int(text) <= most]
