"""One round of scheduling: `plan(snapshot, policy)` says who starts where and why each other job waits.

Jobs are tried in the order of the policy. One that does not fit is passed over and the next is tried, unless
the policy forbids it; the first that do not fit may have places kept for them that later jobs must not take.
The cost follows the number of different demands and of placements, not of pending jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.cluster.snapshot import PendingJob, Snapshot
from platform_core.scheduling.board import Board
from platform_core.scheduling.decisions import Placement, Plan, Wait
from platform_core.scheduling.eviction import Eviction
from platform_core.scheduling.explain import Explainer
from platform_core.scheduling.ordering import ORDERS
from platform_core.scheduling.ordering.keys import KeyOfJob
from platform_core.scheduling.policy import Policy
from platform_core.scheduling.preemption import Preemption


@dataclass(frozen=True, slots=True)
class Decisions:
    """A round before anybody asked why."""

    started: list[tuple[PendingJob, Placement]]
    waiting: list[PendingJob]
    order: tuple[str, ...]
    preemptions: tuple[str, ...]
    board: Board


def plan(snapshot: Snapshot, policy: Policy | None = None) -> Plan:
    policy = policy or Policy()
    decided = decide(snapshot, policy)
    return Plan(
        placements=tuple(placement for _, placement in decided.started),
        waits=_explained(decided, policy),
        order=decided.order,
        preemptions=decided.preemptions,
    )


def decide(snapshot: Snapshot, policy: Policy) -> Decisions:
    """The decisions of a round without their explanations, for those who replay thousands of rounds."""
    key = ORDERS[policy.order](snapshot)
    queue = sorted(snapshot.pending, key=key)
    board = Board(snapshot, spread=policy.spread)
    eviction = _eviction(policy, board, queue, key)
    if eviction is not None:
        queue.sort(key=eviction.is_undeserving)  # the room made for one is not for those who would be evicted
    started: list[tuple[PendingJob, Placement]] = []
    waiting: list[PendingJob] = []
    for number, job in enumerate(queue):
        place = board.place_for(job)
        if place is not None:
            started.append((job, board.seat(job, place)))
            continue
        waiting.append(job)
        if eviction is not None and eviction.make_room(job):
            continue
        if len(board.reservations.made) < policy.reservations:
            board.reserve(job)
        elif not policy.skip_ahead or (board.is_full() and (eviction is None or eviction.is_hopeless(job))):
            waiting.extend(queue[number + 1 :])  # nobody after this one can start
            break
    evicted = tuple(eviction.evicted) if eviction is not None else ()
    return Decisions(started, waiting, tuple(job.id for job in queue), evicted, board)


def _eviction(
    policy: Policy, board: Board, queue: list[PendingJob], key: KeyOfJob
) -> Eviction | Preemption | None:
    if policy.preempts:
        return Preemption(board, key)
    return Eviction(board, queue, key) if policy.evicts else None


def _explained(decided: Decisions, policy: Policy) -> tuple[Wait, ...]:
    if not decided.waiting:
        return ()
    first = decided.waiting[0]
    explainer = Explainer(decided.board, decided.started)
    return tuple(
        explainer.wait(job, held_back_by="" if policy.skip_ahead or job is first else first.id)
        for job in decided.waiting
    )
