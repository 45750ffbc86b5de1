"""The state of one round: what is still free, what is reserved, and which running jobs stop.

Every other module of the scheduler reads it and changes it through its methods alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Final

from platform_core.cluster.rank_order import node_order
from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.scheduling.decisions import NodeReservation, Placement, Seat, Stop
from platform_core.scheduling.estimates import remaining_ms, with_gpus
from platform_core.scheduling.placement.better_place import LeftPlace, place_cost_clause
from platform_core.scheduling.placement.cluster_view import ClusterView
from platform_core.scheduling.placement.node_index import Demand, SlotCounts
from platform_core.scheduling.placement.search import IslandCounts, Place, take_slots
from platform_core.scheduling.reservations.nodes import Reservations
from platform_core.scheduling.reservations.quota_ledger import QuotaLedger
from platform_core.scheduling.wording import held_sentence, listed, placed_sentence

Attempt = tuple[str, Demand, int]  # what was tried, for which demand, and a number that decides the outcome


class RoundState:
    """Free capacity only shrinks within a round, so a demand that failed once is not tried again."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot: Final = snapshot
        self.cluster: Final = ClusterView(snapshot.nodes, snapshot.now_ms)
        self.index: Final = self.cluster.index
        self.at_start: Final = SlotCounts(self.index, lambda node: len(node.free_slots))
        self.counts: Final = self.at_start.copy()
        self.quota: Final = QuotaLedger(snapshot)
        self.reservations: Final = Reservations(self.cluster, snapshot, self.counts, self.quota)
        self.resizable: Final = tuple(
            job
            for job in snapshot.running
            if job.asks is not None and job.preemptible and job.min_gpus < job.num_gpus
        )
        # Stopping jobs that resume on reserved nodes. They are queued only to get free slots there.
        self.migrating: Final = tuple(self._find_migrating())
        self._migrating_ids = {job.id for job in self.migrating}
        self._migrated: list[PendingJob] = []
        self._stops: list[Stop] = []
        self._stopping: set[str] = set()
        self._node_reservations: list[NodeReservation] = []
        self._rejected_migration: Sequence[Stop] = ()
        self._claimants: set[str] = set()
        self._owners: Set[str] = frozenset()
        self._overtaken: Mapping[str, PendingJob] = {}
        self._failed_attempts: set[Attempt] = set()
        self._surplus = {
            (share.team, share.gpu_type): share.used - share.guaranteed for share in snapshot.teams
        }
        self._slots = [node.free_slots for node in self.index.nodes]
        self._islands = IslandCounts(self.index) if self.index.with_islands else None
        self._free = {
            gpu_type: self.counts.total(self.index.of_type(gpu_type) & self.cluster.ready)
            for gpu_type in self.index.gpu_types
        }
        self._shortest_failed_ms: dict[Demand, int] = {}
        self._left_places: dict[str, LeftPlace] = {}

    # What the round has decided so far.

    @property
    def stops(self) -> Sequence[Stop]:
        return self._stops

    @property
    def stopping(self) -> Set[str]:
        """Ids of the running jobs that this round stops."""
        return self._stopping

    @property
    def node_reservations(self) -> Sequence[NodeReservation]:
        """Nodes that this round reserves for later rounds."""
        return self._node_reservations

    @property
    def rejected_migration(self) -> Sequence[Stop]:
        """The stops of the first migration whose cost exceeds its gain."""
        return self._rejected_migration

    @property
    def claimants(self) -> Set[str]:
        """Ids of the waiting jobs that claim slots which stopping jobs release."""
        return self._claimants

    @property
    def owners(self) -> Set[str]:
        """Ids of the waiting jobs within their team's guarantee."""
        return self._owners

    @property
    def overtaken(self) -> Mapping[str, PendingJob]:
        """Owner → an earlier job of its team that it overtakes and that may wait for quota."""
        return self._overtaken

    @property
    def migrated(self) -> Sequence[PendingJob]:
        """Jobs that hold free slots for their resumption: those that migrate now or started to earlier."""
        return self._migrated

    @property
    def left_places(self) -> Mapping[str, LeftPlace]:
        """Waiting job → the free place that it leaves for a better one."""
        return self._left_places

    def leave_place(self, job_id: str, left: LeftPlace) -> None:
        self._left_places[job_id] = left

    def _find_migrating(self) -> Iterator[PendingJob]:
        for job in self.snapshot.running:
            asks = job.asks
            if not job.stopping or asks is None or asks.resize_to or asks.reserved_until_ms is None:
                continue
            if self.reservation_counts(asks):
                yield with_gpus(asks, job.held)

    def is_migrating(self, job_id: str) -> bool:
        return job_id in self._migrating_ids

    def reservation_counts(self, job: PendingJob) -> bool:
        """True unless the reservation of its nodes has expired."""
        return job.reserved_until_ms is None or self.snapshot.now_ms < job.reserved_until_ms

    # Free capacity.

    def is_full(self) -> bool:
        return not any(self._free.values())

    def may_start(self, job: PendingJob) -> bool:
        """Cheap test: enough quota, and enough free slots of the type on any nodes."""
        return self._free.get(job.gpu_type, 0) >= job.num_gpus and self.in_quota(job)

    def in_quota(self, job: PendingJob) -> bool:
        return self.quota.allows(job)

    def could_start(self, job: PendingJob) -> bool:
        """True if the team's maximum and the ready nodes could hold the job on an idle cluster."""
        maximum = self.quota.maximum(job.team, job.gpu_type) or 0
        return job.num_gpus <= maximum and self.cluster.could_hold(self.cluster.demand(job))

    def find_place(self, job: PendingJob) -> Place | None:
        if not self.may_start(job):
            return None
        demand = self.cluster.demand(job)
        runtime_ms = self.runtime_ms(job)
        if runtime_ms >= self._shortest_failed_ms.get(demand, runtime_ms + 1):
            return None
        free = self.reservations.free_through(runtime_ms)
        preferred = self.index.bits(job.resize_on or job.reserved_nodes or job.warm_nodes)
        place = self.cluster.place(free, demand, preferred) if preferred else None
        holders = self.index.bits(job.holders)
        place = place or self.cluster.place(free, demand, islands=self._islands, holders=holders)
        if place is None:
            self._shortest_failed_ms[demand] = runtime_ms
        return place

    def runtime_ms(self, job: PendingJob) -> int:
        """How long its place must stay free; 0 when neither reservations nor maintenance matter."""
        return remaining_ms(job) if self.reservations.made or self.cluster.windows else 0

    def take(self, position: int, slots: int) -> None:
        """Use free slots of a node without choosing their indices."""
        self.counts.take(position, slots)
        self._free[self.index.nodes[position].gpu_type] -= slots

    def give_back(self, position: int, slots: int) -> None:
        """Slots that `take` used are free after all."""
        self.counts.give(position, slots)
        self._free[self.index.nodes[position].gpu_type] += slots
        self._shortest_failed_ms.clear()

    def place_job(self, job: PendingJob, place: Place, *, fewer_than: int = 0) -> Placement:
        """Start the job there. `fewer_than`: the GPUs an elastic job asked for, when it starts with fewer."""
        members: list[Seat] = []
        racks = [
            (self.index.nodes[position].block, self.index.nodes[position].rack) for position in place.nodes
        ]
        traffic = job.traffic.between_nodes(place.slots_each, job.tensor)
        for rank, turn in enumerate(node_order(racks, job.stages, traffic)):
            position = place.nodes[turn]
            node = self.index.nodes[position]
            slots, self._slots[position] = take_slots(
                self._slots[position], node.islands, place.slots_each, job.tensor
            )
            members.append(Seat(node.id, rank, slots))
            if self._islands is not None and node.islands:
                self._islands.update(position, self._slots[position], node.islands)
            self.take(position, place.slots_each)
        self.reservations.start(place, remaining_ms(job))
        self.quota.take(job)
        reason = self._reason(job, place)
        if fewer_than:
            reason = f"{reason}; it asked for {fewer_than} and starts with {job.num_gpus}"
        return Placement(job.id, tuple(members), reason)

    def _reason(self, job: PendingJob, place: Place) -> str:
        nodes = [self.index.nodes[position] for position in place.nodes]
        where = placed_sentence(job.num_gpus, job.gpu_type, [node.rack for node in nodes])
        where += place_cost_clause(
            job.place_steps, len(nodes), len({(node.block, node.rack) for node in nodes})
        )
        if held := sum(node.id in job.holders for node in nodes):
            where = f"{where}; " + held_sentence(held, len(nodes))
        again = [node.hostname for node in nodes if node.id in job.excluded_nodes]
        if not again:
            return where
        return f"{where}; again on {listed(again)}, where it failed before: it fits nowhere else"

    # Reservations.

    def reserve_place(self, job: PendingJob) -> Place | None:
        """Hold free slots for a migrating job. None if its reserved nodes, or any nodes, have too few left."""
        nodes, runtime_ms = (
            self.index.bits(job.reserved_nodes) if job.reserved_nodes else -1,
            remaining_ms(job),
        )
        free = self.reservations.free_through(runtime_ms)
        place = self.cluster.place(free, self.cluster.demand(job), nodes)
        if place is not None:
            for position in place.nodes:
                self.take(position, place.slots_each)
            self.reservations.start(place, runtime_ms)
            self._migrated.append(job)
        return place

    def reserve_nodes(self, job_id: str, positions: Iterable[int], until_ms: int | None = None) -> None:
        """Reserve nodes for a job beyond this round."""
        nodes = sorted(self.index.nodes[position].id for position in positions)
        self._node_reservations.append(NodeReservation(job_id, tuple(nodes), until_ms))

    def reserve_quota(self, job: PendingJob) -> None:
        """Reserve quota for a job that waits for it, unless an earlier job of its team has a reservation."""
        quota = self.quota
        if quota.has_headroom(job) or quota.reservations_of(job.team, job.gpu_type):
            return
        start_ms = quota.earliest_ms(job, self.snapshot.now_ms) if self.could_start(job) else None
        if start_ms is not None:
            quota.reserve(job, start_ms)

    def set_owners(self, owners: Set[str], overtaken: Mapping[str, PendingJob]) -> None:
        self._owners, self._overtaken = owners, overtaken

    # Stops.

    def surplus(self, team: str, gpu_type: str) -> int:
        """What running jobs of the team hold beyond its guarantee, without those that this round stops."""
        return self._surplus.get((team, gpu_type), 0)

    def release_surplus(self, job: RunningJob) -> None:
        self._surplus[job.team, job.gpu_type] = self.surplus(job.team, job.gpu_type) - job.held

    def stop(self, stops: Iterable[Stop]) -> None:
        for stop in stops:
            self._stops.append(stop)
            self._stopping.add(stop.job_id)

    def reject_migration(self, stops: Sequence[Stop]) -> None:
        """Remember the first migration that costs too much."""
        self._rejected_migration = self._rejected_migration or stops

    def commit(
        self,
        stopped: Iterable[RunningJob],
        placed: Sequence[tuple[Place, int]],
        spare: Iterable[SlotCounts],
        stops: Sequence[Stop],
    ) -> None:
        """Adopt a what-if state: stop these jobs and hold the places for the jobs assigned to them."""
        self.reservations.release(stopped)
        for place, _ in placed:
            for position in place.nodes:
                self.take(position, place.slots_each - self.reservations.claim(position, place.slots_each))
        self.reservations.adopt(placed, spare)
        if stops:
            self._failed_attempts.clear()
        self.stop(stops)

    def claim(self, job: PendingJob) -> None:
        """Count the job as one that gets released slots."""
        self._claimants.add(job.id)
        self.quota.take(job)

    def has_failed(self, attempt: Attempt) -> bool:
        return attempt in self._failed_attempts

    def mark_failed(self, attempt: Attempt) -> None:
        """Do not try this again before a stop has released more slots."""
        self._failed_attempts.add(attempt)
