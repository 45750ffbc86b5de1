"""Fragmentation: free slots that are of no use to a job that needs whole nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from platform_core.cluster.snapshot import NodeView


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """Of one GPU type, or of a rack. Nodes that accept no jobs count as not free."""

    name: str
    free: int
    free_nodes: int  # nodes with at least one free slot
    whole_nodes: int  # nodes on which every slot is free
    broken: int  # free slots on partly used nodes
    off_island: int = 0  # of these, free slots in partly used islands

    @property
    def share(self) -> float:
        """The share of free slots on partly used nodes; 0 when nothing is free."""
        return self.broken / self.free if self.free else 0.0


def fragmentation(nodes: Iterable[NodeView]) -> tuple[Fragmentation, ...]:
    """One entry for each GPU type, by name."""
    by_type: dict[str, list[NodeView]] = {}
    for node in nodes:
        by_type.setdefault(node.gpu_type, []).append(node)
    return tuple(measured(gpu_type, members) for gpu_type, members in sorted(by_type.items()))


def measured(name: str, nodes: Sequence[NodeView]) -> Fragmentation:
    """Of all these nodes together."""
    free = [(len(node.free_slots), node.slots) for node in nodes if node.takes_work and node.free_slots]
    whole = [count for count, slots in free if count == slots]
    total = sum(count for count, _ in free)
    off_island = sum(_off_island(node) for node in nodes if node.takes_work)
    return Fragmentation(name, total, len(free), len(whole), total - sum(whole), off_island)


def _off_island(node: NodeView) -> int:
    free = set(node.free_slots)
    return sum(len(free.intersection(island)) for island in node.islands if not free.issuperset(island))
