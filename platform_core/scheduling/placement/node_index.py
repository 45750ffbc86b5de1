"""Nodes as bit sets: a set of nodes is an integer, so a search over a thousand nodes takes a few machine words.

`NodeIndex` holds what does not change within a round (type, rack, block, shape); `SlotCounts` holds how many slots are
free. Bit i is the i-th node in order of (block, rack, id), so the lowest bit of a set does not depend on the order of
the snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from platform_core.cluster.snapshot import NodeView, PendingJob
from platform_core.jobs.constraints import ANYWHERE, Constraints


@dataclass(frozen=True, slots=True)
class Demand:
    """What a job demands of its nodes. Jobs with equal demands fit or fail together."""

    gpu_type: str
    gpus: int
    cpus_per_gpu: int
    memory_per_gpu_bytes: int
    excluded_nodes: tuple[str, ...]
    constraints: Constraints = ANYWHERE
    tensor: int = 1
    group: int = 1
    on_nodes: int = 0

    @classmethod
    def of(cls, job: PendingJob) -> Demand:
        return cls(
            job.gpu_type,
            job.num_gpus,
            job.cpus_per_gpu,
            job.memory_per_gpu_bytes,
            tuple(sorted(set(job.excluded_nodes))),
            job.constraints,
            job.tensor,
            job.group,
            job.on_nodes,
        )


class NodeIndex:
    """The nodes of a snapshot in a fixed order, with a bit set for each thing a job can ask of a node."""

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self.nodes = tuple(sorted(nodes, key=lambda node: (node.block, node.rack, node.id)))
        self.most_slots = max((node.slots for node in self.nodes), default=0)
        self.position_of = {node.id: position for position, node in enumerate(self.nodes)}
        self.all = (1 << len(self.nodes)) - 1
        self._of_type: dict[str, int] = {}
        self._labelled: dict[tuple[str, str], int] = {}
        self._tainted: dict[str, int] = {}
        self.with_islands = 0
        racks: dict[tuple[str, str], int] = {}
        for position, node in enumerate(self.nodes):
            bit = 1 << position
            self._of_type[node.gpu_type] = self._of_type.get(node.gpu_type, 0) | bit
            racks[(node.block, node.rack)] = racks.get((node.block, node.rack), 0) | bit
            if node.islands:
                self.with_islands |= bit
            for label in node.labels:
                self._labelled[label] = self._labelled.get(label, 0) | bit
            for taint in node.taints:
                self._tainted[taint] = self._tainted.get(taint, 0) | bit
        blocks: dict[str, list[int]] = {}
        for (block, _), rack in racks.items():
            blocks.setdefault(block, []).append(rack)
        self.racks_by_block = tuple(tuple(racks_of_block) for racks_of_block in blocks.values())
        self.gpu_types = tuple(self._of_type)
        self.racks = tuple(rack for racks_of_block in self.racks_by_block for rack in racks_of_block)
        self._large_enough: dict[tuple[str, int, int], int] = {}
        self._admitting: dict[Constraints, int] = {}

    def of_type(self, gpu_type: str) -> int:
        return self._of_type.get(gpu_type, 0)

    def where(self, holds: Callable[[NodeView], bool]) -> int:
        return sum(1 << position for position, node in enumerate(self.nodes) if holds(node))

    def bit(self, node_id: str) -> int:
        position = self.position_of.get(node_id)
        return 0 if position is None else 1 << position

    def bits(self, node_ids: Iterable[str]) -> int:
        return sum(self.bit(node_id) for node_id in set(node_ids))

    def seats(self, placement: Iterable[tuple[str, tuple[int, ...]]]) -> list[tuple[int, int]]:
        """(position, slots) of a running job, on the nodes that are known."""
        return [(self.position_of[node], len(slots)) for node, slots in placement if node in self.position_of]

    def members(self, nodes: int) -> Iterator[NodeView]:
        return (self.nodes[position] for position in positions(nodes))

    def eligible(self, demand: Demand) -> int:
        """Nodes that may serve the demand, whatever is free on them and whatever their state."""
        nodes = self.large_enough(demand)
        for node_id in demand.excluded_nodes:
            nodes &= ~self.bit(node_id)
        return nodes & self.admitting(demand.constraints)

    def admitting(self, wanted: Constraints) -> int:
        """Nodes with all the labels and only tolerated taints, without the excluded ones."""
        if wanted not in self._admitting:
            nodes = self.all
            for label in wanted.labels:
                nodes &= self._labelled.get(label, 0)
            for taint, tainted in self._tainted.items():
                if taint not in wanted.tolerations:
                    nodes &= ~tainted
            if wanted.excluded_nodes:
                excluded = set(wanted.excluded_nodes)
                nodes &= ~self.where(lambda node: node.id in excluded or node.hostname in excluded)
            self._admitting[wanted] = nodes
        return self._admitting[wanted]

    def taints_on(self, nodes: int) -> tuple[str, ...]:
        return tuple(sorted(taint for taint, tainted in self._tainted.items() if tainted & nodes))

    def large_enough(self, demand: Demand) -> int:
        """Nodes of the type with enough CPUs and memory per slot."""
        key = (demand.gpu_type, demand.cpus_per_gpu, demand.memory_per_gpu_bytes)
        if key not in self._large_enough:
            self._large_enough[key] = sum(
                1 << position
                for position, node in enumerate(self.nodes)
                if node.gpu_type == demand.gpu_type
                and demand.cpus_per_gpu * node.slots <= node.cpus
                and demand.memory_per_gpu_bytes * node.slots <= node.memory_bytes
            )
        return self._large_enough[key]


class SlotCounts:
    """How many slots each node has to give. `at_least(n)` is the set of nodes with n or more."""

    def __init__(self, index: NodeIndex, slots_of: Callable[[NodeView], int]) -> None:
        levels = [0] * (index.most_slots + 2)
        for position, node in enumerate(index.nodes):
            levels[slots_of(node)] |= 1 << position
        for level in range(index.most_slots, 0, -1):
            levels[level - 1] |= levels[level]
        self._levels = levels

    def copy(self) -> SlotCounts:
        twin = SlotCounts.__new__(SlotCounts)
        twin._levels = self._levels.copy()
        return twin

    def at_least(self, count: int) -> int:
        return self._levels[count] if count < len(self._levels) else 0

    def exactly(self, count: int) -> int:
        return self._levels[count] & ~self._levels[count + 1]

    def total(self, nodes: int) -> int:
        return sum([(level & nodes).bit_count() for level in self._levels[1:]])

    def suffice(self, nodes: int, splits: Iterable[int], gpus: int) -> bool:
        """True if these nodes could take so many GPUs in one of the splits, other conditions aside."""
        levels = self._levels
        return any((levels[gpus // count] & nodes).bit_count() >= count for count in splits)

    def most_on_one(self, nodes: int) -> int:
        return max((count for count, level in enumerate(self._levels) if level & nodes), default=0)

    def at(self, position: int) -> int:
        bit, free = 1 << position, 0
        while self._levels[free + 1] & bit:
            free += 1
        return free

    def take(self, position: int, slots: int) -> None:
        free = self.at(position)
        if slots > free:
            raise ValueError(f"node {position} has {free} free slots, cannot take {slots}")
        bit = 1 << position
        for count in range(free - slots + 1, free + 1):
            self._levels[count] ^= bit

    def give(self, position: int, slots: int) -> None:
        free, bit = self.at(position), 1 << position
        for count in range(free + 1, free + slots + 1):
            self._levels[count] ^= bit

    def without(self, nodes: int) -> SlotCounts:
        """The counts with nothing free on these nodes."""
        rest = SlotCounts.__new__(SlotCounts)
        rest._levels = [level & ~nodes for level in self._levels]
        return rest

    def meet(self, other: SlotCounts) -> SlotCounts:
        """On each node the smaller of the two counts."""
        least = SlotCounts.__new__(SlotCounts)
        least._levels = [mine & its for mine, its in zip(self._levels, other._levels, strict=True)]
        return least


def positions(nodes: int) -> Iterator[int]:
    """The positions in a set of nodes, lowest first."""
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest
