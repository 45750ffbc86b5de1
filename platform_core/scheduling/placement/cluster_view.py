"""The nodes of a round and how gangs may be laid on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from platform_core.cluster.health import NodeState
from platform_core.cluster.snapshot import NodeView, PendingJob
from platform_core.scheduling.placement.node_index import Demand, NodeIndex, SlotCounts
from platform_core.scheduling.placement.search import LinkedRoom, Place, equal_splits, find_place

_IN_SERVICE = frozenset({NodeState.READY, NodeState.SUSPECT})  # a suspect node is expected back in seconds


class Site:
    """A gang takes as few nodes as it could have on the empty cluster, unless `spread` lets it take more now.

    So what fits one node waits for one node, and larger gangs take whole nodes: they train faster, and nodes
    stay whole for others.
    """

    def __init__(self, nodes: Sequence[NodeView], now_ms: int, *, spread: bool) -> None:
        self.index = NodeIndex(nodes)
        self.capacity = SlotCounts(self.index, lambda node: node.slots)
        self.ready = self.index.where(lambda node: node.takes_work)
        self.in_service = self.index.where(lambda node: node.state in _IN_SERVICE)
        self.windows = _by_window(self.index)
        self._now_ms = now_ms
        self._spread = spread
        self._splits: dict[Demand, tuple[int, ...]] = {}
        self._relaxed: dict[Demand, Demand] = {}

    def demand(self, job: PendingJob) -> Demand:
        """What the job asks of this site.

        Nodes it failed on are avoided while it could run without them. Where it could not, on a cluster of one
        node for instance, avoiding them would mean waiting for ever: then they count like any other.
        """
        asked = Demand.of(job)
        if not asked.excluded_nodes:
            return asked
        if asked not in self._relaxed:
            self._relaxed[asked] = self._without_vain_exclusions(asked)
        return self._relaxed[asked]

    def allowed(self, demand: Demand) -> int:
        return self.index.eligible(demand) & self.ready

    def place(
        self, counts: SlotCounts, demand: Demand, within: int = -1, linked: LinkedRoom | None = None
    ) -> Place | None:
        """The best place on ready nodes with these free slots; -1 is the set of all."""
        return self._find(counts, self.allowed(demand) & within, self.splits(demand), demand, linked)

    def closed(self, from_ms: int, runtime_ms: int) -> int:
        """Nodes whose maintenance a run of that length would meet."""
        until_ms, nodes = from_ms + runtime_ms, 0
        for begin_ms, end_ms, meant in self.windows:
            if begin_ms < until_ms and from_ms < end_ms:
                nodes |= meant
        return nodes

    def areas(self, demand: Demand, runtime_ms: int) -> tuple[int, ...]:
        """Sets of nodes for a run from now on; whichever are taken out of one of them lie in no more racks than it may.

        Racks that follow each other in the index are tried together, so not every choice of racks is.
        """
        allowed = self.allowed(demand) & ~self.closed(self._now_ms, runtime_ms)
        most = demand.constraints.max_racks
        racks = [nodes for rack in self.index.racks if (nodes := rack & allowed)]
        if not 0 < most < len(racks):
            return (allowed,)
        return tuple(sum(racks[first : first + most]) for first in range(len(racks) - most + 1))

    def splits(self, demand: Demand) -> tuple[int, ...]:
        """Over how many nodes it may go, the most welcome first."""
        if demand not in self._splits:
            self._splits[demand] = self._splits_of(demand)
        return self._splits[demand]

    def could_hold(self, demand: Demand) -> bool:
        """Whether the ready nodes would have enough if nothing ran on them, in however many racks."""
        return self.capacity.suffice(self.allowed(demand), self.splits(demand), demand.gpus)

    def empty_place(self, demand: Demand, nodes: int) -> Place | None:
        """The best place on these nodes if nothing ran on them."""
        return self._find(self.capacity, nodes, self._all_splits(demand), demand)

    def _find(
        self,
        counts: SlotCounts,
        nodes: int,
        splits: Sequence[int],
        demand: Demand,
        linked: LinkedRoom | None = None,
    ) -> Place | None:
        most = demand.constraints.max_racks
        return find_place(self.index, counts, nodes, splits, demand.gpus, most, linked)

    def _without_vain_exclusions(self, asked: Demand) -> Demand:
        if self.empty_place(asked, self.index.eligible(asked)) is not None:
            return asked
        return replace(asked, excluded_nodes=())

    def _splits_of(self, demand: Demand) -> tuple[int, ...]:
        if self._spread:
            return self._all_splits(demand)
        place = self.empty_place(demand, self.index.eligible(demand) & self.in_service)
        return (len(place.nodes),) if place is not None else ()

    def _all_splits(self, demand: Demand) -> tuple[int, ...]:
        return equal_splits(demand.gpus, self.index.most_slots, one_node=demand.one_node)


def _by_window(index: NodeIndex) -> tuple[tuple[int, int, int], ...]:
    """(begin, end, nodes) of all booked maintenance; nodes that share a window stand together."""
    found: dict[tuple[int, int], int] = {}
    for position, node in enumerate(index.nodes):
        for window in node.windows:
            found[window] = found.get(window, 0) | 1 << position
    return tuple((begin_ms, end_ms, nodes) for (begin_ms, end_ms), nodes in sorted(found.items()))
