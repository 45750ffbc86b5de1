"""Elastic jobs: jobs that run with fewer GPUs than they ask for, down to a minimum.

An elastic job starts with fewer GPUs when that starts it now. It is shrunk (it saves and restarts smaller) before any
job is evicted, and grown into idle GPUs that nobody waits for. A resized job goes first in the next round, with the
size planned for it, so that it waits no longer than planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from platform_core.cluster.snapshot import PendingJob, RunningJob
from platform_core.scheduling.decisions import Stop, StopKind
from platform_core.scheduling.estimates import (
    lost_by_stopping_ms,
    remaining_ms,
    remaining_of_running_ms,
    with_gpus,
)
from platform_core.scheduling.state.round_state import RoundState
from platform_core.scheduling.state.what_if import WhatIf, least_stops, lost_gpu_ms

LEAST_RUN_BEFORE_SHRINKING_MS = 10 * 60_000
LEAST_RUN_BEFORE_GROWING_MS = 30 * 60_000
LEAST_RUN_BEFORE_GROWING_BACK_MS = 60_000
GAIN_OF_GROWING = 10  # GPU time won, over GPU time lost

Sized = tuple[RunningJob, int]  # a job and the GPUs with which it resumes


def sizes(job: PendingJob, node_slots: int) -> Iterator[int]:
    """The numbers of GPUs with which it may run, the largest first: whole nodes, or part of one.

    A job with a layout runs with whole replicas.
    """
    if job.replica == 1:
        yield from _node_sizes(job, node_slots)
        return
    size = 0
    for size in _node_sizes(job, node_slots):
        if size % job.replica == 0:
            yield size
    if size != job.min_gpus <= min(job.num_gpus, job.resize_to or job.num_gpus):
        yield job.min_gpus


def _node_sizes(job: PendingJob, node_slots: int) -> Iterator[int]:
    most = min(job.num_gpus, job.resize_to or job.num_gpus)
    node_slots = max(1, node_slots)
    yield most
    size = most - 1
    while size >= job.min_gpus:
        if size > node_slots and size % node_slots:
            size -= size % node_slots
            continue
        yield size
        size -= 1 if size <= node_slots else node_slots
    if node_slots < job.min_gpus < most and job.min_gpus % node_slots:
        yield job.min_gpus


def is_elastic(job: PendingJob | RunningJob) -> bool:
    return job.min_gpus < job.num_gpus


def shrink_for(state: RoundState, job: PendingJob) -> bool:
    """Shrink jobs of the same or a less urgent priority for a waiting job, if that suffices."""
    attempt = ("shrink", state.cluster.demand(job), job.priority)
    if not state.resizable or state.has_failed(attempt):
        return False
    if any(stop.kind is StopKind.SHRUNK for stop in state.stops):
        return False  # one waiting job per round, so that the next round places the jobs as planned here
    candidates = [running for running in state.resizable if _may_shrink(state, running, job)]
    candidates.sort(key=lambda running: (lost_gpu_ms(state, running), running.id))
    chosen = least_stops(candidates, lambda jobs: _shrunk(state, _at_minimum(jobs), job) is not None)
    lost = sum(lost_gpu_ms(state, running) for running in chosen)
    if not chosen or lost > remaining_ms(job) * job.num_gpus:
        if not chosen:
            state.mark_failed(attempt)  # otherwise a longer job of the same demand may be worth it
        return False
    targets = _largest(state, chosen, job)
    what_if = _shrunk(state, targets, job)
    assert what_if is not None
    what_if.commit(
        [
            Stop(running.id, job.id, StopKind.SHRUNK, lost_gpu_ms(state, running), size)
            for running, size in targets
        ]
    )
    state.quota.take(job)
    return True


def grow(state: RoundState, waiting: Iterable[PendingJob]) -> None:
    """Give idle GPUs to a running job that asked for more, if no job within quota waits for that type.

    At most one job per round, and none in a round that stops others, so that the next round finds the planned place.
    """
    wanted = _wanted_types(state, waiting) if state.resizable else set()
    for job in sorted(state.resizable, key=lambda job: (job.priority, job.submitted_ms, job.id)):
        if state.stops:
            return
        if job.asks is None or job.gpu_type in wanted or not _may_grow(state, job, job.asks):
            continue
        for size in sizes(replace(job.asks, resize_to=0), state.index.most_slots):
            if size <= job.held or _grow_to(state, job, job.asks, size):
                break


def _wanted_types(state: RoundState, waiting: Iterable[PendingJob]) -> set[str]:
    return {job.gpu_type for job in waiting if state.quota.has_headroom(with_gpus(job, job.min_gpus))}


def _may_shrink(state: RoundState, job: RunningJob, wanted: PendingJob) -> bool:
    if job.id in state.stopping or job.gpu_type != wanted.gpu_type:
        return False
    ran_ms = state.snapshot.now_ms - job.started_ms
    settled = ran_ms >= LEAST_RUN_BEFORE_SHRINKING_MS or job.priority > wanted.priority
    return settled and job.priority >= wanted.priority and job.held > job.min_gpus


def _at_minimum(jobs: Iterable[RunningJob]) -> list[Sized]:
    return sorted([(job, job.min_gpus) for job in jobs], key=lambda sized: sized[0].id)


def _shrunk(state: RoundState, sized: Sequence[Sized], job: PendingJob) -> WhatIf | None:
    """The state with these jobs at their new sizes and then the job, assigned in the order of the next round."""
    what_if = WhatIf(state, [running for running, _ in sized])
    for running, size in sized:
        assert running.asks is not None
        nodes = tuple(node for node, _ in running.placement)
        if not what_if.assign(replace(with_gpus(running.asks, size), resize_on=nodes)):
            return None
    return what_if if what_if.assign(job) else None


def _largest(state: RoundState, shrunk: Sequence[RunningJob], job: PendingJob) -> list[Sized]:
    """The most GPUs that each of them can keep, one job after the other."""
    sized = _at_minimum(shrunk)
    for number, (running, _) in enumerate(sized):
        assert running.asks is not None
        for size in sizes(replace(running.asks, resize_to=running.held - 1), state.index.most_slots):
            larger = [*sized[:number], (running, size), *sized[number + 1 :]]
            if _shrunk(state, larger, job) is not None:
                sized = larger
                break
    return sized


def grows_from_ms(started_ms: int, losses_ms: Sequence[int]) -> int:
    """When a job whose attempt started then may get more GPUs: soon after a failure, the first in a while, that may
    have taken some from it. Where machines come and go, it waits as others do."""
    lately = sum(at_ms > started_ms - LEAST_RUN_BEFORE_GROWING_MS for at_ms in losses_ms)
    return started_ms + (LEAST_RUN_BEFORE_GROWING_BACK_MS if lately == 1 else LEAST_RUN_BEFORE_GROWING_MS)


def _may_grow(state: RoundState, job: RunningJob, asks: PendingJob) -> bool:
    settled = state.snapshot.now_ms >= grows_from_ms(job.started_ms, job.losses_ms)
    return settled and job.held < asks.num_gpus and job.id not in state.stopping


def _grow_to(state: RoundState, job: RunningJob, asks: PendingJob, size: int) -> bool:
    now_ms, more = state.snapshot.now_ms, size - job.held
    won = remaining_of_running_ms(job, now_ms) * more
    if won < GAIN_OF_GROWING * lost_by_stopping_ms(job, now_ms) * size:
        return False
    added = replace(asks, num_gpus=more, min_gpus=more)
    # Its limit starts anew with all that it holds, which would delay a quota reservation of its team.
    if state.quota.reservations_of(job.team, job.gpu_type) or not state.quota.has_headroom(added):
        return False
    what_if = WhatIf(state, [job])
    if not what_if.assign(with_gpus(asks, size)):
        return False
    what_if.commit([Stop(job.id, job.id, StopKind.GROWN, lost_gpu_ms(state, job), size)])
    state.quota.take(added)
    return True
