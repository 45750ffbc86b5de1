"""Places kept for jobs that cannot start yet, and what others may use until then.

A reservation names nodes and a start: the earliest time at which enough slots will be free, and the team's maximum has
room, when the running jobs end as expected. Between reservations slots only become free, so what is free throughout a
run is what is free now and at each reserved start within it; sets of nodes being bits, that is a handful of ANDs. A job
that ends before a reserved start does not see the reservation; a longer one only the slots it leaves.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.scheduling.estimates import LEAVING_MS, expected_end_ms, remaining_ms
from platform_core.scheduling.placement.cluster_view import Site
from platform_core.scheduling.placement.node_index import SlotCounts
from platform_core.scheduling.placement.search import Place
from platform_core.scheduling.reservations.quota_ledger import QuotaLedger


@dataclass(frozen=True, slots=True)
class Reservation:
    job_id: str
    start_ms: int
    end_ms: int
    place: Place
    free_beside: SlotCounts  # at the start, with this place and all that overlap it taken


class Reservations:
    def __init__(self, site: Site, snapshot: Snapshot, counts: SlotCounts, quota: QuotaLedger) -> None:
        """`counts` and `quota` stay the board's own: what is free now, as it is used up."""
        self.made: list[Reservation] = []
        self._site, self._snapshot, self._counts, self._quota = site, snapshot, counts, quota
        self._started: list[tuple[int, Place]] = []  # (end, place) of jobs seated in this round
        # Position → slots that stopped jobs give up, and nobody has yet.
        self.coming: Counter[int] = Counter()
        # The same of jobs that are evicted in this round, for whoever else is.
        self.freed: Counter[int] = Counter()
        self._stopped: set[str] = set()

    def free_through(self, runtime_ms: int) -> SlotCounts:
        """What stays free for a job that starts now and runs so long."""
        return self._least(self._counts, self._snapshot.now_ms, runtime_ms)

    def stop(self, jobs: Iterable[RunningJob]) -> None:
        """They do not end as expected but give up their slots now."""
        for job in jobs:
            self._stopped.add(job.id)
            for position, slots in self._site.index.seats(job.placement):
                self.coming[position] += slots

    def replace(self, stopped: Iterable[RunningJob], place: Place, runtime_ms: int) -> None:
        """These give up their slots now, and a job that takes some of them, and some that are free, runs there."""
        for job in stopped:
            self._stopped.add(job.id)
            end_ms = expected_end_ms(job, self._snapshot.now_ms)
            for position, slots in self._site.index.seats(job.placement):
                for kept in self.made:
                    if kept.start_ms < end_ms:
                        kept.free_beside.give(position, slots)
        self.start(place, runtime_ms)

    def use(self, placed: Iterable[tuple[Place, int]]) -> None:
        """These places are used as soon as they are free, each for so long."""
        self._started.extend((self._snapshot.now_ms + runtime_ms, place) for place, runtime_ms in placed)

    def start(self, place: Place, runtime_ms: int) -> None:
        end_ms = self._snapshot.now_ms + runtime_ms
        self._started.append((end_ms, place))
        for reservation in self.made:
            if reservation.start_ms < end_ms:
                _take(reservation.free_beside, place)

    def kept_within(self, runtime_ms: int) -> int:
        """The nodes of all places that whoever starts now and runs so long would reach into."""
        until_ms = self._snapshot.now_ms + runtime_ms
        nodes = 0
        for kept in self.made:
            if kept.start_ms < until_ms:
                nodes |= sum([1 << position for position in kept.place.nodes])
        return nodes

    def reserve(self, job: PendingJob) -> Reservation | None:
        """The earliest time, place and quota for the whole run of the job, or None when no end makes room."""
        site, demand, runtime_ms = self._site, self._site.demand(job), remaining_ms(job)
        allowed, splits = site.allowed(demand), site.splits(demand)
        in_quota_ms = self._quota.earliest_ms(job, self._snapshot.now_ms)
        if in_quota_ms is None or not site.could_hold(demand):
            return None
        for at_ms, counts in self._free_from(in_quota_ms):
            if not counts.suffice(allowed, splits, demand.gpus):
                continue
            place = site.place(self._least(counts, at_ms, runtime_ms), demand)
            if place is not None and self._quota.earliest_ms(job, at_ms) == at_ms:
                self._quota.keep(job, at_ms)
                return self._keep(Reservation(job.id, at_ms, at_ms + runtime_ms, place, counts))
        return None

    def _keep(self, made: Reservation) -> Reservation:
        _take(made.free_beside, made.place)
        for other in self.made:
            if made.start_ms < other.start_ms < made.end_ms:
                _take(other.free_beside, made.place)
        self.made.append(made)
        return made

    def _least(self, counts: SlotCounts, from_ms: int, runtime_ms: int) -> SlotCounts:
        closed = self._site.closed(from_ms, runtime_ms)
        if closed:
            counts = counts.without(closed)
        for reservation in self.made:
            if from_ms < reservation.start_ms < from_ms + runtime_ms:
                counts = counts.meet(reservation.free_beside)
        return counts

    def _free_from(self, from_ms: int) -> Iterator[tuple[int, SlotCounts]]:
        """What is free then, and at each later time at which that changes. The counts go on to change."""
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
        """(time, slots fewer, position) of all that is known to start or end; what becomes free is negative.
        The end of a window frees none, but nodes may be used from then on.

        At one time the ends come first: who starts then may use what has just become free.
        """
        now_ms, position_of = self._snapshot.now_ms, self._site.index.position_of
        changes = [
            (end_ms, -len(slots), position_of[node])
            for job in self._snapshot.running
            if job.id not in self._stopped
            for end_ms in (expected_end_ms(job, now_ms),)
            for node, slots in job.placement
            if node in position_of
        ]
        leaving = (*self.coming.items(), *self.freed.items())
        changes.extend([(now_ms + LEAVING_MS, -slots, position) for position, slots in leaving if slots])
        changes.extend([(end_ms, 0, 0) for _, end_ms, _ in self._site.windows if end_ms > now_ms])
        for end_ms, place in self._started:
            changes.extend([(end_ms, -place.slots_each, position) for position in place.nodes])
        for kept in self.made:
            each = kept.place.slots_each
            for position in kept.place.nodes:
                changes.extend([(kept.start_ms, each, position), (kept.end_ms, -each, position)])
        changes.sort()
        return changes


def _take(counts: SlotCounts, place: Place) -> None:
    for position in place.nodes:
        counts.take(position, place.slots_each)
