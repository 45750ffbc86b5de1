"""One round of scheduling: `plan(snapshot, policy)` says who starts where and why each other job waits.

Jobs are tried in the order of the policy. One that does not fit is passed over and the next is tried, unless
the policy forbids it. Within a round slots only become fewer, so a demand that failed is not tried again:
the cost follows the number of different demands and of placements, not of pending jobs.
"""

from __future__ import annotations

from platform_core.cluster.snapshot import PendingJob, Snapshot
from platform_core.scheduling.decisions import Placement, Plan, Seat, Wait
from platform_core.scheduling.explain import Explainer, placed_sentence
from platform_core.scheduling.node_index import Demand, NodeIndex, SlotCounts
from platform_core.scheduling.ordering import ORDERS
from platform_core.scheduling.placement import Place, find_place
from platform_core.scheduling.policy import Policy
from platform_core.scheduling.quota_ledger import QuotaLedger


def plan(snapshot: Snapshot, policy: Policy | None = None) -> Plan:
    policy = policy or Policy()
    queue = sorted(snapshot.pending, key=ORDERS[policy.order](snapshot))
    board = _Board(snapshot)
    started: list[tuple[PendingJob, Placement]] = []
    waiting: list[PendingJob] = []
    for job in queue:
        held_back = bool(waiting) and not policy.skip_ahead
        place = None if held_back else board.place_for(job)
        if place is None:
            waiting.append(job)
        else:
            started.append((job, board.seat(job, place)))
    return Plan(
        placements=tuple(placement for _, placement in started),
        waits=_explained(board, started, waiting, policy),
        order=tuple(job.id for job in queue),
    )


def _explained(
    board: _Board, started: list[tuple[PendingJob, Placement]], waiting: list[PendingJob], policy: Policy
) -> tuple[Wait, ...]:
    if not waiting:
        return ()
    explainer = Explainer(board.snapshot, board.index, board.at_start, board.counts, board.quota, started)
    first = waiting[0]
    return tuple(
        explainer.wait(job, held_back_by="" if policy.skip_ahead or job is first else first.id)
        for job in waiting
    )


class _Board:
    """The slots and quotas of one round, used up as gangs are seated."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.index = NodeIndex(snapshot.nodes)
        self.at_start = SlotCounts(self.index, lambda node: len(node.free_slots))
        self.counts = self.at_start.copy()
        self.quota = QuotaLedger(snapshot.teams)
        self._ready = self.index.where(lambda node: node.takes_work)
        self._free = [node.free_slots for node in self.index.nodes]
        self._failed: set[Demand] = set()

    def place_for(self, job: PendingJob) -> Place | None:
        if not self.quota.allows(job.team, job.gpu_type, job.num_gpus):
            return None
        demand = Demand.of(job)
        if demand in self._failed:
            return None
        allowed = self.index.eligible(demand) & self._ready
        place = find_place(self.index, self.counts, allowed, demand)
        if place is None:
            self._failed.add(demand)
        return place

    def seat(self, job: PendingJob, place: Place) -> Placement:
        members: list[Seat] = []
        for rank, position in enumerate(place.nodes):
            free = self._free[position]
            members.append(Seat(self.index.nodes[position].id, rank, free[: place.slots_each]))
            self._free[position] = free[place.slots_each :]
            self.counts.take(position, place.slots_each)
        self.quota.take(job.team, job.gpu_type, job.num_gpus)
        racks = [self.index.nodes[position].rack for position in place.nodes]
        return Placement(job.id, tuple(members), placed_sentence(job, place.slots_each, racks))
