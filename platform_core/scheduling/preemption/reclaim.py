"""GPUs that a team lends while it does not need them, and how it gets them back.

What a team holds beyond its guarantee is borrowed. A waiting job that fits within its team's guarantee takes room from
borrowers, whatever their priority: that is what a guarantee is. Nobody is stopped for another team unless its
own team holds more than its guarantee at that moment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence

from platform_core.cluster.snapshot import PendingJob, RunningJob
from platform_core.scheduling.decisions import Stop, StopKind
from platform_core.scheduling.state.round_state import Board
from platform_core.scheduling.state.what_if import Draft, least_stops, lost_gpu_ms

LEAST_RUN_BEFORE_RECLAIM_MS = 5 * 60_000  # what a borrower gets at least; so long an owner may have to wait


def reclaim_for(board: Board, job: PendingJob) -> bool:
    """Stop borrowers for a job within its team's guarantee, as few and as cheap as suffice."""
    asked = (f"reclaim for {job.team}", board.site.demand(job), 0)
    if job.id not in board.owners or asked in board.hopeless:
        return False
    now_ms = board.snapshot.now_ms
    chosen = _least_borrowers(
        board, job, [each for each in _borrowers(board, job) if _settled_ms(each) <= now_ms]
    )
    if chosen:
        _settle(board, job, chosen)
    else:
        board.hopeless.add(asked)
    return bool(chosen)


def reclaimable_later(board: Board, job: PendingJob) -> tuple[int, Sequence[RunningJob]] | None:
    """When borrowers that run for too short a time yet may be stopped for a job within its team's guarantee, and which.

    None where there are none, or stopping them would not make a place.
    """
    if job.id not in board.owners:
        return None
    borrowers = _borrowers(board, job)
    times = sorted({at_ms for at_ms in map(_settled_ms, borrowers) if at_ms > board.snapshot.now_ms})

    def chosen(at_ms: int) -> Sequence[RunningJob]:
        return _least_borrowers(board, job, [each for each in borrowers if _settled_ms(each) <= at_ms])

    if not times or not chosen(times[-1]):
        return None
    first_ms = times[bisect_left(times, True, key=lambda at_ms: bool(chosen(at_ms)))]
    return first_ms, [each for each in chosen(first_ms) if _settled_ms(each) > board.snapshot.now_ms]


def may_all_stop(board: Board, jobs: Iterable[RunningJob]) -> bool:
    """Whether each team keeps its guarantee, or loses but one job that it could not have within its guarantee.

    So nobody who is stopped is within a guarantee afterwards and goes before the one for whom it was stopped.
    """
    by_team: dict[tuple[str, str], list[int]] = {}
    for job in jobs:
        by_team.setdefault((job.team, job.gpu_type), []).append(job.held)
    return all(
        sum(held) <= board.surplus(*team) or (len(held) == 1 and board.surplus(*team) > 0)
        for team, held in by_team.items()
    )


def _borrowers(board: Board, wanted: PendingJob) -> list[RunningJob]:
    """Preemptible jobs of other teams that hold more than their guarantee, the cheapest to stop first."""
    borrowers = [
        job
        for job in board.snapshot.running
        if job.gpu_type == wanted.gpu_type and job.team != wanted.team and job.preemptible
        and job.id not in board.stopping and board.surplus(job.team, job.gpu_type) > 0
    ]  # fmt: skip
    return sorted(borrowers, key=lambda job: (lost_gpu_ms(board, job), job.id))


def _settled_ms(job: RunningJob) -> int:
    """When it has had what a borrower gets at least."""
    return job.started_ms + LEAST_RUN_BEFORE_RECLAIM_MS


def _least_borrowers(board: Board, job: PendingJob, candidates: Sequence[RunningJob]) -> Sequence[RunningJob]:
    """As few as make a place: first only as many of each team as it can lose; else anybody, if those needed turn out to
    be no more."""
    for pool in (_within_surplus(board, candidates), candidates):
        chosen = least_stops(pool, lambda them: Draft(board, them).lay(job))
        if chosen and may_all_stop(board, chosen):
            return chosen
    return ()


def _within_surplus(board: Board, candidates: Sequence[RunningJob]) -> list[RunningJob]:
    taken = Counter[str]()
    pool: list[RunningJob] = []
    for job in candidates:
        if taken[job.team] + job.held <= board.surplus(job.team, job.gpu_type):
            taken[job.team] += job.held
            pool.append(job)
    return pool


def _settle(board: Board, job: PendingJob, chosen: Sequence[RunningJob]) -> None:
    draft = Draft(board, chosen)
    assert draft.lay(job)
    draft.settle([Stop(each.id, job.id, StopKind.RECLAIMED, lost_gpu_ms(board, each)) for each in chosen])
    for each in chosen:
        board.gives_up(each)
    board.quota.take(job)
