"""GPUs that a team lends while it does not need them, and how it gets them back.

What a team holds beyond its guarantee is borrowed. A waiting job that fits within its team's guarantee takes room from
borrowers, whatever their priority: that is what a guarantee is. Nobody is stopped for another team unless its
own team holds more than its guarantee at that moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from platform_core.cluster.snapshot import PendingJob, RunningJob
from platform_core.scheduling.board import Board
from platform_core.scheduling.decisions import Stop, StopKind
from platform_core.scheduling.stopping import Draft, least_stops, lost_gpu_ms

LEAST_RUN_BEFORE_RECLAIM_MS = 5 * 60_000  # what a borrower gets at least; so long an owner may have to wait


def reclaim_for(board: Board, job: PendingJob) -> bool:
    """Stop borrowers for a job within its team's guarantee, as few and as cheap as suffice."""
    asked = (f"reclaim for {job.team}", board.site.demand(job), 0)
    if job.id not in board.owners or asked in board.hopeless:
        return False
    candidates = [each for each in board.snapshot.running if _may_be_reclaimed(board, each, job)]
    candidates.sort(key=lambda each: (lost_gpu_ms(board, each), each.id))
    # First only as many of each team as it can lose; else anybody, if those needed turn out to be no more.
    for pool in (_within_surplus(board, candidates), candidates):
        chosen = least_stops(pool, lambda them: Draft(board, them).lay(job))
        if chosen and may_all_stop(board, chosen):
            _settle(board, job, chosen)
            return True
    board.hopeless.add(asked)
    return False


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


def _may_be_reclaimed(board: Board, job: RunningJob, wanted: PendingJob) -> bool:
    if job.gpu_type != wanted.gpu_type or job.team == wanted.team or not job.preemptible:
        return False
    settled = board.snapshot.now_ms - job.started_ms >= LEAST_RUN_BEFORE_RECLAIM_MS
    return settled and job.id not in board.stopping and board.surplus(job.team, job.gpu_type) > 0


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
