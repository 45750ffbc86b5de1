"""The nodes of a round: which of them a job may use, and over how many a gang may be split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from platform_core.cluster.health import NodeState
from platform_core.cluster.snapshot import NodeView, PendingJob
from platform_core.scheduling.placement.node_index import Demand, NodeIndex, SlotCounts
from platform_core.scheduling.placement.search import (
    IslandCounts,
    Place,
    equal_splits,
    find_place,
    whole_groups,
)

_IN_SERVICE = frozenset({NodeState.READY, NodeState.SUSPECT})  # a suspect node is expected back in seconds


class ClusterView:
    """A gang takes as few nodes as it would need on an empty cluster.

    A gang that fits one node waits for one node, and larger gangs take whole nodes: they train faster, and other gangs
    find whole nodes.
    """

    def __init__(self, nodes: Sequence[NodeView], now_ms: int) -> None:
        self.index = NodeIndex(nodes)
        self.capacity = SlotCounts(self.index, lambda node: node.slots)
        self.ready = self.index.where(lambda node: node.takes_work)
        self.in_service = self.index.where(lambda node: node.state in _IN_SERVICE and not node.out_of_service)
        self.windows = _by_window(self.index)
        self._now_ms = now_ms
        self._splits: dict[Demand, tuple[int, ...]] = {}
        self._relaxed: dict[Demand, Demand] = {}

    def demand(self, job: PendingJob) -> Demand:
        """What the job demands of this cluster.

        Nodes on which it failed are excluded, unless it could never run without them (on a cluster of one node, for
        example).
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
        self,
        counts: SlotCounts,
        demand: Demand,
        within: int = -1,
        islands: IslandCounts | None = None,
        holders: int = 0,
    ) -> Place | None:
        """The best place on ready nodes with these free slots; -1 is the set of all."""
        return self._find(
            counts, self.allowed(demand) & within, self.splits(demand), demand, islands, holders
        )

    def closed(self, from_ms: int, runtime_ms: int) -> int:
        """Nodes with a maintenance window during such a run."""
        until_ms, closed = from_ms + runtime_ms, 0
        for begin_ms, end_ms, nodes in self.windows:
            if begin_ms < until_ms and from_ms < end_ms:
                closed |= nodes
        return closed

    def areas(self, demand: Demand, runtime_ms: int) -> tuple[int, ...]:
        """Sets of nodes for a run that starts now; any choice of nodes within one set keeps the limit on racks.

        Only racks that are neighbours in the index share a set, so not every combination of racks is offered.
        """
        allowed = self.allowed(demand) & ~self.closed(self._now_ms, runtime_ms)
        max_racks = demand.constraints.max_racks
        racks = [nodes for rack in self.index.racks if (nodes := rack & allowed)]
        if not 0 < max_racks < len(racks):
            return (allowed,)
        return tuple(sum(racks[first : first + max_racks]) for first in range(len(racks) - max_racks + 1))

    def splits(self, demand: Demand) -> tuple[int, ...]:
        """The numbers of nodes over which it may be split, the preferred first."""
        if demand not in self._splits:
            self._splits[demand] = self._splits_of(demand)
        return self._splits[demand]

    def could_hold(self, demand: Demand) -> bool:
        """True if the ready nodes would have enough slots on an idle cluster, in any number of racks."""
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
        islands: IslandCounts | None = None,
        holders: int = 0,
    ) -> Place | None:
        max_racks = demand.constraints.max_racks
        return find_place(self.index, counts, nodes, splits, demand.gpus, max_racks, islands, holders)

    def _without_vain_exclusions(self, asked: Demand) -> Demand:
        if self.empty_place(asked, self.index.eligible(asked)) is not None:
            return asked
        return replace(asked, excluded_nodes=())

    def _splits_of(self, demand: Demand) -> tuple[int, ...]:
        if demand.on_nodes:
            return tuple(count for count in self._all_splits(demand) if count == demand.on_nodes)
        place = self.empty_place(demand, self.index.eligible(demand) & self.in_service)
        return (len(place.nodes),) if place is not None else ()

    def _all_splits(self, demand: Demand) -> tuple[int, ...]:
        splits = equal_splits(demand.gpus, self.index.most_slots)
        if demand.group == 1:
            return splits
        most = self.capacity.most_on_one(self.index.eligible(demand))
        return whole_groups(splits, demand.gpus, demand.tensor, demand.group, most)


def _by_window(index: NodeIndex) -> tuple[tuple[int, int, int], ...]:
    """(begin, end, nodes) of every booked maintenance window; nodes with the same window share an entry."""
    nodes_of: dict[tuple[int, int], int] = {}
    for position, node in enumerate(index.nodes):
        for window in node.windows:
            nodes_of[window] = nodes_of.get(window, 0) | 1 << position
    return tuple((begin_ms, end_ms, nodes) for (begin_ms, end_ms), nodes in sorted(nodes_of.items()))
