"""The jobs that hold the slots a waiting job would need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from platform_core.cluster.snapshot import PendingJob, RunningJob
from platform_core.scheduling.decisions import Placement
from platform_core.scheduling.placement.node_index import NodeIndex


@dataclass(frozen=True, slots=True)
class _Holding:
    job_id: str
    team: str
    slots: int
    nodes: int  # bit set
    first_node: str
    on_first: int


class Holders:
    """Running jobs and those placed in this round, the largest first, for each type of GPU."""

    def __init__(
        self, index: NodeIndex, running: Sequence[RunningJob], started: Sequence[tuple[PendingJob, Placement]]
    ) -> None:
        self._hostname = {node.id: node.hostname for node in index.nodes}
        self._by_type: dict[str, list[_Holding]] = {}
        for job in running:
            self._add(
                index, job.gpu_type, job.id, job.team, [(node, len(slots)) for node, slots in job.placement]
            )
        for new, placement in started:
            seats = [(seat.node, len(seat.slots)) for seat in placement.members]
            self._add(index, new.gpu_type, new.id, new.team, seats)
        for holdings in self._by_type.values():
            holdings.sort(key=lambda holding: (-holding.slots, holding.job_id))

    def largest_on(self, nodes: int, gpu_type: str) -> str:
        """A sentence about the largest job on these nodes, or '' when there is none."""
        holdings = (holding for holding in self._by_type.get(gpu_type, ()) if holding.nodes & nodes)
        largest = next(holdings, None)
        return self._sentence(largest, with_team=True) if largest else ""

    def largest_of_team(self, team: str, gpu_type: str) -> str:
        holdings = (holding for holding in self._by_type.get(gpu_type, ()) if holding.team == team)
        largest = next(holdings, None)
        return self._sentence(largest, with_team=False) if largest else ""

    def _add(
        self, index: NodeIndex, gpu_type: str, job_id: str, team: str, seats: Sequence[tuple[str, int]]
    ) -> None:
        if not seats:
            return
        nodes = 0
        for node, _ in seats:
            nodes |= index.bit(node)
        first_node, on_first = seats[0]
        total = sum(count for _, count in seats)
        holding = _Holding(job_id, team, total, nodes, first_node, on_first)
        self._by_type.setdefault(gpu_type, []).append(holding)

    def _sentence(self, holding: _Holding, *, with_team: bool) -> str:
        where = self._hostname.get(holding.first_node, holding.first_node)
        whose = f" (team {holding.team})" if with_team else ""
        if holding.slots == holding.on_first:
            return f"{where} holds {holding.on_first} for {holding.job_id}{whose}"
        others = holding.nodes.bit_count() - 1
        return f"{where} and {others} more hold {holding.slots} for {holding.job_id}{whose}"
