"""Places kept for jobs that cannot start yet, and what others may use until then.

A reservation names nodes and a start: the earliest time at which enough slots will be free, when the running
jobs end as expected. Between reservations slots only become free, so what is free throughout a run is what is
free now and at each reserved start within it; sets of nodes being bits, that is a handful of ANDs. A job that
ends before a reserved start does not see the reservation; a longer one only the slots it leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.scheduling.estimates import expected_end_ms, remaining_ms
from platform_core.scheduling.node_index import SlotCounts
from platform_core.scheduling.placement import Place
from platform_core.scheduling.site import Site


@dataclass(frozen=True, slots=True)
class Reservation:
    job_id: str
    start_ms: int
    end_ms: int
    place: Place
    free_beside: SlotCounts  # at the start, with this place and all that overlap it taken


class Reservations:
    def __init__(self, site: Site, snapshot: Snapshot, counts: SlotCounts) -> None:
        """`counts` stays the board's own: what is free now, as it is used up."""
        self.made: list[Reservation] = []
        self._site, self._snapshot, self._counts = site, snapshot, counts
        self._started: list[tuple[int, Place]] = []  # (end, place) of jobs seated in this round
        # Position → slots that stopped jobs give up, and nobody has yet.
        self.coming: Counter[int] = Counter()
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

    def use(self, placed: Iterable[tuple[Place, int]]) -> None:
        """These places are used as soon as they are free, each for so long."""
        self._started.extend((self._snapshot.now_ms + runtime_ms, place) for place, runtime_ms in placed)

    def start(self, place: Place, runtime_ms: int) -> None:
        end_ms = self._snapshot.now_ms + runtime_ms
        self._started.append((end_ms, place))
        for reservation in self.made:
            if reservation.start_ms < end_ms:
                _take(reservation.free_beside, place)

    def reserve(self, job: PendingJob) -> Reservation | None:
        """The earliest time and place for the whole run of the job, or None when no end makes room."""
        site, demand, runtime_ms = self._site, self._site.demand(job), remaining_ms(job)
        allowed, splits = site.allowed(demand), site.splits(demand)
        counts = self._counts.copy()
        changes = self._changes()
        for number, (at_ms, fewer, position) in enumerate(changes):
            if fewer < 0:
                counts.give(position, -fewer)
            else:
                counts.take(position, fewer)
            last_of_its_time = number + 1 == len(changes) or changes[number + 1][0] > at_ms
            if not last_of_its_time or not counts.suffice(allowed, splits, demand.gpus):
                continue
            place = site.place(self._least(counts, at_ms, runtime_ms), demand)
            if place is not None:
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
        changes.extend([(now_ms, -slots, position) for position, slots in self.coming.items() if slots])
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
