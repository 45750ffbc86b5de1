"""The slots and quotas of one round, used up as gangs are seated."""

from __future__ import annotations

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.scheduling.decisions import Placement, Room, Seat, Stop
from platform_core.scheduling.estimates import remaining_ms
from platform_core.scheduling.placement.cluster_view import Site
from platform_core.scheduling.placement.node_index import Demand, SlotCounts
from platform_core.scheduling.placement.search import LinkedRoom, Place, take_slots
from platform_core.scheduling.reservations.nodes import Reservations
from platform_core.scheduling.reservations.quota_ledger import QuotaLedger
from platform_core.scheduling.wording import listed, placed_sentence


class Board:
    """Within a round slots only become fewer, so a demand that failed is not tried again."""

    def __init__(self, snapshot: Snapshot, *, spread: bool = False) -> None:
        self.snapshot = snapshot
        self.site = Site(snapshot.nodes, snapshot.now_ms, spread=spread)
        self.index = self.site.index
        self.at_start = SlotCounts(self.index, lambda node: len(node.free_slots))
        self.counts = self.at_start.copy()
        self.quota = QuotaLedger(snapshot)
        self.reservations = Reservations(self.site, snapshot, self.counts, self.quota)
        self.stops: list[Stop] = []
        self.rooms: list[Room] = []  # that this round makes by moving others
        self.too_dear: list[Stop] = []  # moves for the first in order that would win less than they lose
        self.stopping: set[str] = set()  # running jobs that this round stops
        self.resizable = [
            job
            for job in snapshot.running
            if job.asks is not None and job.preemptible and job.min_gpus < job.num_gpus
        ]
        # What stops could not make room for, until the next.
        self.hopeless: set[tuple[str, Demand, int]] = set()
        self._surplus = {
            (share.team, share.gpu_type): share.used - share.guaranteed for share in snapshot.teams
        }
        self.owners: set[str] = set()  # waiting jobs within their team's guarantee
        # An owner that goes before an earlier job of its team, which may wait for quota → that job.
        self.passed: dict[str, PendingJob] = {}
        self.promised: set[str] = set()  # waiting jobs that get what others are giving up already
        # Running jobs that save: in the queue only so that their new place is kept.
        self.moving: set[str] = set()
        self.kept_for: list[PendingJob] = []  # those of them, and of this round, whose place is
        self._slots = [node.free_slots for node in self.index.nodes]
        self._linked = LinkedRoom(self.index) if self.index.with_islands else None
        self._free = {
            gpu_type: self.counts.total(self.index.of_type(gpu_type) & self.site.ready)
            for gpu_type in self.index.gpu_types
        }
        self._failed: dict[Demand, int] = {}  # the shortest run time that found no place

    def is_full(self) -> bool:
        return not any(self._free.values())

    def may_start(self, job: PendingJob) -> bool:
        """Cheap: enough quota and enough free slots of the type, wherever they are."""
        return self._free.get(job.gpu_type, 0) >= job.num_gpus and self.in_quota(job)

    def in_quota(self, job: PendingJob) -> bool:
        return self.quota.allows(job)

    def place_for(self, job: PendingJob) -> Place | None:
        if not self.may_start(job):
            return None
        demand = self.site.demand(job)
        runtime_ms = self.runtime_ms(job)
        if runtime_ms >= self._failed.get(demand, runtime_ms + 1):
            return None
        free = self.reservations.free_through(runtime_ms)
        best = self.index.bits(job.resize_on or job.room_on)
        place = self.site.place(free, demand, best) if best else None
        place = place or self.site.place(free, demand, linked=self._linked)
        if place is None:
            self._failed[demand] = runtime_ms
        return place

    def runtime_ms(self, job: PendingJob) -> int:
        """How long its place must stay free; 0 where nothing is kept for anybody."""
        return remaining_ms(job) if self.reservations.made or self.site.windows else 0

    def seat(self, job: PendingJob, place: Place, *, fewer_than: int = 0) -> Placement:
        members: list[Seat] = []
        for rank, position in enumerate(place.nodes):
            node = self.index.nodes[position]
            slots, self._slots[position] = take_slots(self._slots[position], node.islands, place.slots_each)
            members.append(Seat(node.id, rank, slots))
            if self._linked is not None and node.islands:
                self._linked.has(position, self._slots[position], node.islands)
            self.take(position, place.slots_each)
        self.reservations.start(place, remaining_ms(job))
        self.quota.take(job)
        reason = self._reason(job, place)
        if fewer_than:
            reason = f"{reason}; it asks for {fewer_than} and begins with {job.num_gpus}, which start it now"
        return Placement(job.id, tuple(members), reason)

    def _reason(self, job: PendingJob, place: Place) -> str:
        nodes = [self.index.nodes[position] for position in place.nodes]
        where = placed_sentence(job.num_gpus, job.gpu_type, [node.rack for node in nodes])
        again = [node.hostname for node in nodes if node.id in job.excluded_nodes]
        if not again:
            return where
        return f"{where}; again on {listed(again)}, where it failed before: it fits nowhere without"

    def surplus(self, team: str, gpu_type: str) -> int:
        """What running jobs of the team hold beyond its guarantee, without those that this round stops."""
        return self._surplus.get((team, gpu_type), 0)

    def gives_up(self, job: RunningJob) -> None:
        self._surplus[job.team, job.gpu_type] = self.surplus(job.team, job.gpu_type) - job.held

    def take(self, position: int, slots: int) -> None:
        """Use up free slots of a node without saying which."""
        self.counts.take(position, slots)
        self._free[self.index.nodes[position].gpu_type] -= slots

    def could_start(self, job: PendingJob) -> bool:
        """Whether the maximum of its team and the nodes that take work could hold it if nothing ran."""
        maximum = self.quota.maximum(job.team, job.gpu_type) or 0
        return job.num_gpus <= maximum and self.site.could_hold(self.site.demand(job))

    def keep_quota(self, job: PendingJob) -> None:
        """For one that has to wait for it, unless some is kept for an earlier one of its team."""
        quota = self.quota
        if quota.has_room(job) or quota.kept_for(job.team, job.gpu_type) or not self.could_start(job):
            return
        start_ms = quota.earliest_ms(job, self.snapshot.now_ms)
        if start_ms is not None:
            quota.keep(job, start_ms)
