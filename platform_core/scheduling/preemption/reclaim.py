"""Reclaim of lent GPUs: a team lends what it does not need of its guarantee, and takes it back from borrowers.

What a team holds beyond its guarantee is borrowed. A waiting job within its team's guarantee takes slots from
borrowers, whatever their priority. A job is stopped for another team only while its own team holds more than its
guarantee.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

from platform_core.cluster.snapshot import PendingJob, RunningJob
from platform_core.scheduling.decisions import Stop, StopKind
from platform_core.scheduling.state.round_state import RoundState
from platform_core.scheduling.state.what_if import WhatIf, least_stops, lost_gpu_ms

LEAST_RUN_BEFORE_RECLAIM_MS = 5 * 60_000  # the least run of a borrower; an owner may wait that long


def reclaim_for(state: RoundState, job: PendingJob) -> bool:
    """Stop borrowers for a job within its team's guarantee, as few and as cheap as suffice."""
    attempt = (f"reclaim for {job.team}", state.cluster.demand(job), 0)
    if job.id not in state.owners or state.has_failed(attempt):
        return False
    now_ms = state.snapshot.now_ms
    chosen = _least_borrowers(
        state, job, [borrower for borrower in _borrowers(state, job) if _settled_ms(borrower) <= now_ms]
    )
    if chosen:
        _reclaim(state, job, chosen)
    else:
        state.mark_failed(attempt)
    return bool(chosen)


def reclaimable_later(state: RoundState, job: PendingJob) -> tuple[int, Sequence[RunningJob]] | None:
    """The time at which borrowers have had their least run, and which of them may then be stopped for the job.

    None where there are none, or where stopping them would not make a place.
    """
    if job.id not in state.owners:
        return None
    borrowers = _borrowers(state, job)
    times = sorted({at_ms for at_ms in map(_settled_ms, borrowers) if at_ms > state.snapshot.now_ms})

    def chosen(at_ms: int) -> Sequence[RunningJob]:
        return _least_borrowers(
            state, job, [borrower for borrower in borrowers if _settled_ms(borrower) <= at_ms]
        )

    if not times or not chosen(times[-1]):
        return None
    first_ms = times[bisect_left(times, True, key=lambda at_ms: bool(chosen(at_ms)))]
    return first_ms, [
        borrower for borrower in chosen(first_ms) if _settled_ms(borrower) > state.snapshot.now_ms
    ]


def may_all_stop(state: RoundState, jobs: Iterable[RunningJob]) -> bool:
    """True if each team keeps its guarantee, or loses a single job that exceeds it.

    So no stopped job is within a guarantee afterwards and overtakes the job for which it was stopped.
    """
    by_team: dict[tuple[str, str], list[int]] = {}
    for job in jobs:
        by_team.setdefault((job.team, job.gpu_type), []).append(job.held)
    return all(
        sum(held) <= state.surplus(*team) or (len(held) == 1 and state.surplus(*team) > 0)
        for team, held in by_team.items()
    )


def _borrowers(state: RoundState, wanted: PendingJob) -> list[RunningJob]:
    """Preemptible jobs of other teams that hold more than their guarantee, the cheapest to stop first."""
    borrowers = [
        job
        for job in state.snapshot.running
        if job.gpu_type == wanted.gpu_type and job.team != wanted.team and job.preemptible
        and job.id not in state.stopping and state.surplus(job.team, job.gpu_type) > 0
    ]  # fmt: skip
    return sorted(borrowers, key=lambda job: (lost_gpu_ms(state, job), job.id))


def _settled_ms(job: RunningJob) -> int:
    """When it has had the least run of a borrower."""
    return job.started_ms + LEAST_RUN_BEFORE_RECLAIM_MS


def _least_borrowers(
    state: RoundState, job: PendingJob, candidates: Sequence[RunningJob]
) -> Sequence[RunningJob]:
    """The fewest borrowers that make a place: first as many of each team as its surplus covers, then of all."""
    for pool in (_within_surplus(state, candidates), candidates):
        chosen = least_stops(pool, lambda jobs: WhatIf(state, jobs).assign(job))
        if chosen and may_all_stop(state, chosen):
            return chosen
    return ()


def _within_surplus(state: RoundState, candidates: Sequence[RunningJob]) -> list[RunningJob]:
    taken = Counter[str]()
    pool: list[RunningJob] = []
    for job in candidates:
        if taken[job.team] + job.held <= state.surplus(job.team, job.gpu_type):
            taken[job.team] += job.held
            pool.append(job)
    return pool


def _reclaim(state: RoundState, job: PendingJob, chosen: Sequence[RunningJob]) -> None:
    what_if = WhatIf(state, chosen)
    assert what_if.assign(job)
    what_if.commit(
        [Stop(borrower.id, job.id, StopKind.RECLAIMED, lost_gpu_ms(state, borrower)) for borrower in chosen]
    )
    for borrower in chosen:
        state.release_surplus(borrower)
    state.quota.take(job)
