"""Jobs that run with fewer GPUs than they ask for, down to a least number.

One starts with fewer where that starts it now. It is shrunk (saves, and starts again smaller) before anybody is
evicted, and grown into idle GPUs while nobody waits for them. What is resized goes first in the next round, at the
size that was planned for it, so that it loses no more than was meant.
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
from platform_core.scheduling.state.round_state import Board
from platform_core.scheduling.state.what_if import Draft, least_stops, lost_gpu_ms

LEAST_RUN_BEFORE_SHRINKING_MS = 10 * 60_000
LEAST_RUN_BEFORE_GROWING_MS = 30 * 60_000
GAIN_OF_GROWING = 10  # GPU time won, over GPU time lost

Sized = tuple[RunningJob, int]  # and with how many GPUs it goes on


def sizes(job: PendingJob, node_slots: int) -> Iterator[int]:
    """The numbers of GPUs it may run with, the most first: whole nodes, or a part of one."""
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


def shrink_for(board: Board, job: PendingJob) -> bool:
    """Make room for a waiting job by shrinking others of its priority or a less urgent one, if that suffices."""
    asked = ("shrink", board.site.demand(job), job.priority)
    if not board.resizable or asked in board.hopeless:
        return False
    if any(stop.kind is StopKind.SHRUNK for stop in board.stops):
        return False  # one at a time: the next round lays them just as this one has drafted it
    candidates = [each for each in board.resizable if _may_shrink(board, each, job)]
    candidates.sort(key=lambda each: (lost_gpu_ms(board, each), each.id))
    chosen = least_stops(candidates, lambda them: _shrunk(board, _at_least(them), job) is not None)
    lost = sum(lost_gpu_ms(board, each) for each in chosen)
    if not chosen or lost > remaining_ms(job) * job.num_gpus:
        if not chosen:
            board.hopeless.add(asked)  # a longer one of the same demand may be worth it
        return False
    targets = _largest(board, chosen, job)
    draft = _shrunk(board, targets, job)
    assert draft is not None
    draft.settle(
        [Stop(each.id, job.id, StopKind.SHRUNK, lost_gpu_ms(board, each), size) for each, size in targets]
    )
    board.quota.take(job)
    return True


def grow(board: Board, waiting: Iterable[PendingJob]) -> None:
    """Give idle GPUs to a running job that asked for more, of a type for which nobody waits within quota.

    One in a round, and none in a round that stops others: the next then finds what this one has drafted.
    """
    wanted = _wanted_types(board, waiting) if board.resizable else set()
    for job in sorted(board.resizable, key=lambda job: (job.priority, job.submitted_ms, job.id)):
        if board.stops:
            return
        if job.asks is None or job.gpu_type in wanted or not _may_grow(board, job, job.asks):
            continue
        for size in sizes(replace(job.asks, resize_to=0), board.index.most_slots):
            if size <= job.held or _grow_to(board, job, job.asks, size):
                break


def _wanted_types(board: Board, waiting: Iterable[PendingJob]) -> set[str]:
    return {job.gpu_type for job in waiting if board.quota.has_room(with_gpus(job, job.min_gpus))}


def _may_shrink(board: Board, job: RunningJob, wanted: PendingJob) -> bool:
    if job.id in board.stopping or job.gpu_type != wanted.gpu_type:
        return False
    ran_ms = board.snapshot.now_ms - job.started_ms
    settled = ran_ms >= LEAST_RUN_BEFORE_SHRINKING_MS or job.priority > wanted.priority
    return settled and job.priority >= wanted.priority and job.held > job.min_gpus


def _at_least(jobs: Iterable[RunningJob]) -> list[Sized]:
    return sorted([(job, job.min_gpus) for job in jobs], key=lambda each: each[0].id)


def _shrunk(board: Board, sized: Sequence[Sized], job: PendingJob) -> Draft | None:
    """These at their new sizes and then the job, in the order in which the next round seats them."""
    draft = Draft(board, [each for each, _ in sized])
    for each, size in sized:
        assert each.asks is not None
        stays = replace(with_gpus(each.asks, size), resize_on=tuple(node for node, _ in each.placement))
        if not draft.lay(stays):
            return None
    return draft if draft.lay(job) else None


def _largest(board: Board, shrunk: Sequence[RunningJob], job: PendingJob) -> list[Sized]:
    """As much as they can keep, one after the other."""
    sized = _at_least(shrunk)
    for number, (each, _) in enumerate(sized):
        assert each.asks is not None
        for size in sizes(replace(each.asks, resize_to=each.held - 1), board.index.most_slots):
            larger = [*sized[:number], (each, size), *sized[number + 1 :]]
            if _shrunk(board, larger, job) is not None:
                sized = larger
                break
    return sized


def _may_grow(board: Board, job: RunningJob, asks: PendingJob) -> bool:
    ran_ms = board.snapshot.now_ms - job.started_ms
    settled = ran_ms >= LEAST_RUN_BEFORE_GROWING_MS
    return settled and job.held < asks.num_gpus and job.id not in board.stopping


def _grow_to(board: Board, job: RunningJob, asks: PendingJob, size: int) -> bool:
    now_ms, more = board.snapshot.now_ms, size - job.held
    won = remaining_of_running_ms(job, now_ms) * more
    if won < GAIN_OF_GROWING * lost_by_stopping_ms(job, now_ms) * size:
        return False
    added = replace(asks, num_gpus=more, min_gpus=more)
    # It begins its limit anew with all that it holds, so an earlier one of its team would get that later.
    if board.quota.kept_for(job.team, job.gpu_type) or not board.quota.has_room(added):
        return False
    draft = Draft(board, [job])
    if not draft.lay(with_gpus(asks, size)):
        return False
    draft.settle([Stop(job.id, job.id, StopKind.GROWN, lost_gpu_ms(board, job), size)])
    board.quota.take(added)
    return True
