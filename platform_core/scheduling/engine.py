"""One round of scheduling: `plan(snapshot, policy)` says who starts where and why each other job waits.

Jobs are tried in the order of the policy. One that does not fit is passed over and the next is tried, unless
the policy forbids it; the first that do not fit may have places kept for them that later jobs must not take.
The cost follows the number of different demands and of placements, not of pending jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from platform_core.cluster.snapshot import PendingJob, Snapshot
from platform_core.scheduling.board import Board
from platform_core.scheduling.decisions import Placement, Plan, Stop, Wait
from platform_core.scheduling.eviction import Eviction, Ranked, as_if_waiting
from platform_core.scheduling.explain import Explainer
from platform_core.scheduling.ordering import HELD, ORDERS
from platform_core.scheduling.policy import Policy


@dataclass(frozen=True, slots=True)
class Decisions:
    """A round before anybody asked why."""

    started: list[tuple[PendingJob, Placement]]
    waiting: list[PendingJob]
    order: tuple[str, ...]
    stops: tuple[Stop, ...]
    board: Board


def plan(snapshot: Snapshot, policy: Policy | None = None) -> Plan:
    policy = policy or Policy()
    decided = decide(snapshot, policy)
    return Plan(
        placements=tuple(placement for _, placement in decided.started),
        waits=_explained(decided, policy),
        order=decided.order,
        stops=decided.stops,
    )


def decide(snapshot: Snapshot, policy: Policy) -> Decisions:
    """The decisions of a round without their explanations, for those who replay thousands of rounds."""
    key = ORDERS[policy.order](snapshot)
    ranked = sorted([(key(job), job) for job in snapshot.pending], key=lambda each: each[0])
    board = Board(snapshot, spread=policy.spread)
    eviction = _eviction(policy, board, ranked)
    if eviction is not None:
        # The room made for one is not for those who would be evicted.
        ranked.sort(key=lambda each: eviction.is_undeserving(each[1]))
    started: list[tuple[PendingJob, Placement]] = []
    waiting: list[PendingJob] = []
    deserving = eviction is not None
    for number, (rank, job) in enumerate(ranked):
        if deserving and eviction is not None and eviction.is_undeserving(job):
            deserving = False  # all rooms are made: what is left can be promised
            _reserve(board, policy, eviction.without_room)
        place = board.place_for(job)
        if place is not None:
            started.append((job, board.seat(job, place)))
            continue
        waiting.append(job)
        if deserving and eviction is not None:
            eviction.make_room(job, rank)
        elif not _reserve(board, policy, [job]) and (not policy.skip_ahead or board.is_full()):
            waiting.extend(later for _, later in ranked[number + 1 :])  # nobody after this one can start
            break
    stops = tuple(eviction.stops) if eviction is not None else ()
    return Decisions(started, waiting, tuple(job.id for _, job in ranked), stops, board)


def _reserve(board: Board, policy: Policy, jobs: Sequence[PendingJob]) -> bool:
    """Keep places while the policy allows more; False when it does not."""
    for job in jobs:
        if len(board.reservations.made) >= policy.reservations:
            return False
        board.reserve(job)
    return True


def _eviction(policy: Policy, board: Board, ranked: Sequence[Ranked]) -> Eviction | None:
    if not policy.evicts:
        return None
    snapshot = board.snapshot
    if policy.order in HELD:
        return Eviction(board, ranked, HELD[policy.order](snapshot), moves=policy.moves)
    key, now_ms = ORDERS[policy.order](snapshot), snapshot.now_ms
    return Eviction(board, ranked, lambda job: key(as_if_waiting(job, now_ms)), moves=policy.moves)


def _explained(decided: Decisions, policy: Policy) -> tuple[Wait, ...]:
    if not decided.waiting:
        return ()
    first = decided.waiting[0]
    explainer = Explainer(decided.board, decided.started, decided.stops)
    return tuple(
        explainer.wait(job, held_back_by="" if policy.skip_ahead or job is first else first.id)
        for job in decided.waiting
    )
