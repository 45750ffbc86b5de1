"""Reservations: nodes and a start time for jobs that cannot start yet, and what backfilled jobs may use until then.

The start is the earliest time at which enough slots are free and the team has quota, if the running jobs end as
expected. Between two reservations slots only become free, so what stays free throughout a run is what is free now and
at each reserved start within the run. Sets of nodes are bit sets, so that is a handful of ANDs. A job that ends before
a reserved start may use the reserved nodes; a longer one only the slots that the reservation leaves.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.scheduling.estimates import RELEASE_MS, expected_end_ms, remaining_ms
from platform_core.scheduling.placement.cluster_view import ClusterView
from platform_core.scheduling.placement.node_index import SlotCounts
from platform_core.scheduling.placement.search import Place
from platform_core.scheduling.reservations.quota_ledger import QuotaLedger


@dataclass(frozen=True, slots=True)
class Reservation:
    job_id: str
    start_ms: int
    end_ms: int
    place: Place
    spare: SlotCounts  # free at the start, beside this reservation and all that overlap it


class Reservations:
    def __init__(
        self, cluster: ClusterView, snapshot: Snapshot, counts: SlotCounts, quota: QuotaLedger
    ) -> None:
        """`counts` and `quota` are shared with the round: what is free now."""
        self._cluster, self._snapshot, self._counts, self._quota = cluster, snapshot, counts, quota
        self._made: list[Reservation] = []
        self._started: list[tuple[int, Place]] = []  # (end, place) of jobs that start in this round
        self._held: dict[str, tuple[int, Sequence[tuple[int, int]]]] = {}
        self._stopped: set[str] = set()
        self._releasing = Counter[int]()
        self._evicted = Counter[int]()

    @property
    def made(self) -> Sequence[Reservation]:
        return self._made

    @property
    def releasing(self) -> Mapping[int, int]:
        """Position → slots that stopping jobs release and nobody has claimed."""
        return self._releasing

    @property
    def evicted(self) -> Mapping[int, int]:
        """Position → slots that jobs evicted in this round release and nobody has claimed."""
        return self._evicted

    def free_through(self, runtime_ms: int) -> SlotCounts:
        """What stays free for a job that starts now, until it ends."""
        return self._least(self._counts, self._snapshot.now_ms, runtime_ms)

    def release(self, jobs: Iterable[RunningJob]) -> None:
        """These jobs stop now instead of ending as expected."""
        for job in jobs:
            self._stopped.add(job.id)
            for position, slots in self._cluster.index.seats(job.placement):
                self._releasing[position] += slots

    def claim(self, position: int, slots: int) -> int:
        """Claim up to so many slots that are being released; returns how many there were."""
        claimed = min(slots, self._releasing[position])
        self._releasing[position] -= claimed
        return claimed

    def release_evicted(self, position: int, slots: int) -> None:
        self._evicted[position] += slots

    def claim_evicted(self, position: int, slots: int) -> int:
        claimed = min(slots, self._evicted[position])
        self._evicted[position] -= claimed
        return claimed

    def hold(self, job_id: str, until_ms: int, held: Sequence[tuple[int, int]]) -> None:
        """These (position, slots) were taken for a job that does not run; they are free again from then on."""
        self._held[job_id] = until_ms, held

    def let_go(self, job_id: str) -> None:
        self._held.pop(job_id, None)

    def replace(self, stopped: Iterable[RunningJob], place: Place, runtime_ms: int) -> None:
        """These jobs stop now, and another runs on the place that they and free slots make."""
        for job in stopped:
            self._stopped.add(job.id)
            end_ms = expected_end_ms(job, self._snapshot.now_ms)
            for position, slots in self._cluster.index.seats(job.placement):
                for reservation in self._made:
                    if reservation.start_ms < end_ms:
                        reservation.spare.give(position, slots)
        self.start(place, runtime_ms)

    def adopt(self, placed: Iterable[tuple[Place, int]], spare: Iterable[SlotCounts]) -> None:
        """Take over what a what-if state has computed: (place, run time) of its jobs, the spare of each reservation."""
        self._made[:] = [
            replace(reservation, spare=counts) for reservation, counts in zip(self._made, spare, strict=True)
        ]
        self._started.extend((self._snapshot.now_ms + runtime_ms, place) for place, runtime_ms in placed)

    def start(self, place: Place, runtime_ms: int) -> None:
        end_ms = self._snapshot.now_ms + runtime_ms
        self._started.append((end_ms, place))
        for reservation in self._made:
            if reservation.start_ms < end_ms:
                _take(reservation.spare, place)

    def reserved_within(self, runtime_ms: int) -> int:
        """The reserved nodes that a job would delay which starts now on all of them."""
        until_ms = self._snapshot.now_ms + runtime_ms
        nodes = 0
        for reservation in self._made:
            if reservation.start_ms < until_ms:
                nodes |= sum([1 << position for position in reservation.place.nodes])
        return nodes

    def reserve(self, job: PendingJob) -> Reservation | None:
        """Reserve the earliest time with a place and quota for the whole run; None when there is none."""
        found = self.earliest(job)
        return None if found is None else self.add(job, found)

    def earliest(self, job: PendingJob, until_ms: int | None = None) -> Reservation | None:
        """What `reserve` would reserve, looking no further ahead than `until_ms`."""
        cluster, demand, runtime_ms = self._cluster, self._cluster.demand(job), remaining_ms(job)
        allowed, splits = cluster.allowed(demand), cluster.splits(demand)
        in_quota_ms = self._quota.earliest_ms(job, self._snapshot.now_ms)
        if in_quota_ms is None or not cluster.could_hold(demand):
            return None
        for at_ms, counts in self._free_from(in_quota_ms):
            if until_ms is not None and at_ms > until_ms:
                return None
            if not counts.suffice(allowed, splits, demand.gpus):
                continue
            place = cluster.place(self._least(counts, at_ms, runtime_ms), demand)
            if place is not None and self._quota.earliest_ms(job, at_ms) == at_ms:
                return Reservation(job.id, at_ms, at_ms + runtime_ms, place, counts.copy())
        return None

    def add(self, job: PendingJob, made: Reservation) -> Reservation:
        """Make a reservation that `earliest` found."""
        self._quota.reserve(job, made.start_ms)
        _take(made.spare, made.place)
        for other in self._made:
            if made.start_ms < other.start_ms < made.end_ms:
                _take(other.spare, made.place)
        self._made.append(made)
        return made

    def _least(self, counts: SlotCounts, from_ms: int, runtime_ms: int) -> SlotCounts:
        closed = self._cluster.closed(from_ms, runtime_ms)
        if closed:
            counts = counts.without(closed)
        for reservation in self._made:
            if from_ms < reservation.start_ms < from_ms + runtime_ms:
                counts = counts.meet(reservation.spare)
        return counts

    def _free_from(self, from_ms: int) -> Iterator[tuple[int, SlotCounts]]:
        """Yields what is free at that time and at each later change. The counts are the same object each time."""
        counts = self._counts.copy()
        changes = self._changes()
        insort(changes, (from_ms, 0, 0))
        for number, (at_ms, fewer, position) in enumerate(changes):
            if fewer < 0:
                counts.give(position, -fewer)
            else:
                counts.take(position, fewer)
            last_of_its_time = number + 1 == len(changes) or changes[number + 1][0] > at_ms
            if last_of_its_time and at_ms >= from_ms:
                yield at_ms, counts

    def _changes(self) -> list[tuple[int, int, int]]:
        """(time, slots taken, position) of every known start and end; slots that become free are negative.

        The end of a maintenance window frees no slots, but opens its nodes. At equal times ends sort before starts,
        so that a start may use what has just become free.
        """
        now_ms, position_of = self._snapshot.now_ms, self._cluster.index.position_of
        changes = [
            (end_ms, -len(slots), position_of[node])
            for job in self._snapshot.running
            if job.id not in self._stopped
            for end_ms in (expected_end_ms(job, now_ms),)
            for node, slots in job.placement
            if node in position_of
        ]
        released = (*self._releasing.items(), *self._evicted.items())
        changes.extend([(now_ms + RELEASE_MS, -slots, position) for position, slots in released if slots])
        changes.extend([(end_ms, 0, 0) for _, end_ms, _ in self._cluster.windows if end_ms > now_ms])
        changes.extend([(end_ms, -slots, at) for end_ms, held in self._held.values() for at, slots in held])
        for end_ms, place in self._started:
            changes.extend([(end_ms, -place.slots_each, position) for position in place.nodes])
        for reservation in self._made:
            slots = reservation.place.slots_each
            for position in reservation.place.nodes:
                changes.append((reservation.start_ms, slots, position))
                changes.append((reservation.end_ms, -slots, position))
        changes.sort()
        return changes


def _take(counts: SlotCounts, place: Place) -> None:
    for position in place.nodes:
        counts.take(position, place.slots_each)
