"""What-if states: the round as it would be if some running jobs had stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from platform_core.cluster.snapshot import PendingJob, RunningJob
from platform_core.scheduling.decisions import Stop
from platform_core.scheduling.estimates import expected_end_ms, lost_by_stopping_ms, remaining_ms, with_gpus
from platform_core.scheduling.placement.node_index import SlotCounts
from platform_core.scheduling.placement.search import Place
from platform_core.scheduling.state.round_state import RoundState

_BATCHES = (4, 16, 64, 256)  # how many of the cheapest candidates are tried together


def least_stops(
    cheapest_first: Sequence[RunningJob], fits: Callable[[Sequence[RunningJob]], bool]
) -> list[RunningJob]:
    """The cheapest jobs that suffice together, without those that are not needed: the dearest are spared first."""
    for count in _BATCHES:
        chosen = list(cheapest_first[:count])
        if chosen and fits(chosen):
            break
        if count >= len(cheapest_first):
            return []
    else:
        return []
    for job in reversed(tuple(chosen)):
        rest = [other for other in chosen if other is not job]
        if fits(rest):
            chosen = rest
    return chosen


def lost_gpu_ms(state: RoundState, job: RunningJob) -> int:
    return lost_by_stopping_ms(job, state.snapshot.now_ms) * job.held


class WhatIf:
    """A copy of the free capacity after `stopped` have released theirs. Changes the round only by `commit`."""

    def __init__(self, state: RoundState, stopped: Sequence[RunningJob] = ()) -> None:
        self._placed: list[tuple[Place, int]] = []  # with the run time of each
        self._state, self._stopped = state, stopped
        self._now_ms = state.snapshot.now_ms
        self._counts = state.counts.copy()
        self._spare = [reservation.spare.copy() for reservation in state.reservations.made]
        for position, slots in state.reservations.releasing.items():
            self._counts.give(position, slots)
        for job in stopped:
            end_ms = expected_end_ms(job, self._now_ms)
            for position, slots in state.index.seats(job.placement):
                self._counts.give(position, slots)
                for start_ms, spare in self._reserved():
                    if end_ms > start_ms:
                        spare.give(position, slots)

    def find_place(self, job: PendingJob, nodes: int = -1) -> Place | None:
        """The best place on these nodes that delays no reservation."""
        cluster, runtime_ms = self._state.cluster, remaining_ms(job)
        free = self._counts.without(cluster.closed(self._now_ms, runtime_ms))
        for spare in self._spare_during(runtime_ms):
            free = free.meet(spare)
        return cluster.place(free, cluster.demand(job), nodes)

    def assign(self, job: PendingJob) -> bool:
        """Give the job its best place; False where it has none."""
        preferred = self._state.index.bits(job.resize_on or job.reserved_nodes)
        place = (self.find_place(job, preferred) if preferred else None) or self.find_place(job)
        if place is None:
            return False
        runtime_ms = remaining_ms(job)
        for position in place.nodes:
            for counts in (self._counts, *self._spare_during(runtime_ms)):
                counts.take(position, place.slots_each)
        self._placed.append((place, runtime_ms))
        return True

    def commit(self, stops: Sequence[Stop] = ()) -> None:
        """Make it the state of the round; slots that nobody was assigned are released for other waiting jobs."""
        self._state.commit(self._stopped, self._placed, self._spare, stops)

    def _spare_during(self, runtime_ms: int) -> list[SlotCounts]:
        until_ms = self._now_ms + runtime_ms
        return [spare for start_ms, spare in self._reserved() if start_ms < until_ms]

    def _reserved(self) -> Iterator[tuple[int, SlotCounts]]:
        made = self._state.reservations.made
        return ((reservation.start_ms, spare) for reservation, spare in zip(made, self._spare, strict=True))


def count_stopping_jobs(state: RoundState) -> None:
    """Count what jobs release that were stopped in earlier rounds; resized ones get their new places first."""
    stopping = [job for job in state.snapshot.running if job.stopping]
    state.reservations.release(stopping)
    for job in sorted(stopping, key=lambda job: job.id):
        if job.asks is not None and job.asks.resize_to:
            what_if = WhatIf(state)
            if what_if.assign(with_gpus(job.asks, job.asks.resize_to)):
                what_if.commit()


def fits_reserved_nodes(state: RoundState, job: PendingJob) -> bool:
    """True if the job still fits the nodes reserved for it, once stopping jobs have released theirs."""
    nodes = state.index.bits(job.reserved_nodes) if state.reservation_counts(job) else 0
    return nodes > 0 and WhatIf(state).find_place(job, nodes) is not None


def claim_released(state: RoundState, job: PendingJob) -> bool:
    """Let the job have what others release already, so that nobody else is stopped for it."""
    if not any(state.reservations.releasing.values()) or not state.quota.will_allow(job):
        return False
    attempt = ("claim", state.cluster.demand(job), remaining_ms(job))
    what_if = WhatIf(state) if not state.has_failed(attempt) else None
    if what_if is None or not what_if.assign(job):
        state.mark_failed(attempt)
        return False
    what_if.commit()
    state.claim(job)
    return True
