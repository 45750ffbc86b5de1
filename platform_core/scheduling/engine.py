"""One round of scheduling: `plan(snapshot, policy)` says who starts where and why each other job waits.

Jobs are tried in the order of the policy. One that does not fit is passed over and the next is tried, unless
the policy forbids it; the first that do not fit may have places kept for them that later jobs must not take.
The cost follows the number of different demands and of placements, not of pending jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from platform_core.cluster.snapshot import PendingJob, Snapshot
from platform_core.scheduling.decisions import Placement, Plan, Stop, Wait
from platform_core.scheduling.estimates import with_gpus
from platform_core.scheduling.explain.wait_reasons import Explainer
from platform_core.scheduling.ordering import ORDERS
from platform_core.scheduling.ordering.keys import BY_KEY
from platform_core.scheduling.policy import Policy
from platform_core.scheduling.preemption import elastic
from platform_core.scheduling.preemption.eviction import Eviction, Ranked
from platform_core.scheduling.preemption.reclaim import reclaim_for
from platform_core.scheduling.reservations.nodes import Reservation
from platform_core.scheduling.state.round_state import Board
from platform_core.scheduling.state.what_if import (
    expect_the_leaving,
    has_room,
    keep_place,
    on_the_move,
    promise,
)


@dataclass(frozen=True, slots=True)
class Decisions:
    """A round before anybody asked why."""

    started: list[tuple[PendingJob, Placement]]
    waiting: list[PendingJob]
    ranked: list[Ranked]
    stops: tuple[Stop, ...]
    board: Board
    unkept: list[PendingJob]  # see keep_places

    @property
    def order(self) -> tuple[str, ...]:
        return tuple([job.id for _, job in self.ranked])


def plan(snapshot: Snapshot, policy: Policy | None = None) -> Plan:
    policy = policy or Policy()
    decided = decide(snapshot, policy)
    keep_places(decided, policy)
    return Plan(
        placements=tuple(placement for _, placement in decided.started),
        waits=_explained(decided, policy),
        order=decided.order,
        stops=decided.stops,
        rooms=tuple(decided.board.rooms),
    )


def decide(snapshot: Snapshot, policy: Policy) -> Decisions:
    """The decisions of a round without their explanations, for those who replay thousands of rounds."""
    snapshot, paused = _without_the_paused(snapshot)
    board = Board(snapshot, spread=policy.spread)
    expect_the_leaving(board)
    ranked, turns, eviction = _ranked(board, policy)
    started: list[tuple[PendingJob, Placement]] = []
    waiting: list[PendingJob] = []
    unkept: list[PendingJob] = []
    for number, (rank, job) in enumerate(ranked):
        if number == turns and eviction is not None:
            eviction.keep_places()
        if number >= turns and _nothing_left(board, policy):
            rest = _waiting(ranked[number:], board)
            waiting.extend(rest)
            unkept.extend(rest)
            break
        if number == turns:
            _reserve(board, policy, unkept)
            unkept.clear()
        if job.id in board.moving:
            keep_place(board, job)
            continue
        placement = _seated(board, job)
        if placement is not None:
            started.append((job, placement))
            continue
        waiting.append(job)
        if _may_make_room(board, policy) and _make_room(board, policy, job, eviction):
            continue
        if eviction is not None and eviction.is_deserving(job):
            if eviction.make_room(job, rank):
                continue
            if not eviction.in_order:
                unkept.append(job)
                continue
        if not _reserve(board, policy, [job]) and not policy.skip_ahead:
            waiting.extend(_waiting(ranked[number + 1 :], board))
            break
    if eviction is not None:
        eviction.keep_places()
    if policy.elastic:
        elastic.grow(board, waiting)
    ranked = [each for each in ranked if each[1].id not in board.moving]
    return Decisions(started, [*waiting, *paused], ranked, tuple(board.stops), board, unkept)


def _without_the_paused(snapshot: Snapshot) -> tuple[Snapshot, list[PendingJob]]:
    """The jobs that have failed and restart later are neither given nor kept anything."""
    paused = [job for job in snapshot.pending if job.not_before_ms > snapshot.now_ms]
    due = [job for job in snapshot.pending if job.not_before_ms <= snapshot.now_ms] if paused else ()
    return replace(snapshot, pending=tuple(due)) if paused else snapshot, paused


def _ranked(board: Board, policy: Policy) -> tuple[list[Ranked], int, Eviction | None]:
    """The queue, and who of those that run deserves what. With the number of those who come before anybody is told what
    is left: who goes first whatever it deserves, and who deserves slots."""
    keys = ORDERS[policy.order].keys(board.snapshot)
    queue = [*board.snapshot.pending, *on_the_move(board)]
    ranked = sorted([(keys.waiting(job), job) for job in queue], key=BY_KEY)
    eviction = Eviction(board, ranked, keys.running, policy) if policy.evicts else None
    if eviction is not None:
        ranked = eviction.ranked(ranked)
    ahead, behind = _put_first(ranked, board, policy)
    if eviction is None:
        return [*ahead, *behind], len(ahead), None
    last = max((number for number, (_, job) in enumerate(behind, 1) if eviction.is_deserving(job)), default=0)
    return [*ahead, *behind], len(ahead) + last, eviction


def keep_places(decided: Decisions, policy: Policy) -> list[Reservation]:
    """All that are kept, with those that nobody could take in this round anyway: they only say when one will start."""
    _reserve(decided.board, policy, decided.unkept)
    return decided.board.reservations.made


def _put_first(
    ranked: list[Ranked], board: Board, policy: Policy
) -> tuple[Sequence[Ranked], Sequence[Ranked]]:
    """Whoever was stopped to be resized has its slots planned already; then those within their team's guarantee, then
    those for whom others have made room by moving, and these themselves.

    Otherwise a borrower that comes before them in order would take again what was reclaimed from it, and a smaller job,
    perhaps the moved one itself, the room of a gang; or the place to which that one moves.
    """
    with_room = _with_room(ranked, board)
    if with_room:
        first = {job.id for _, job in with_room}
        ranked = [*with_room, *[each for each in ranked if each[1].id not in first]]
    resized = sorted([each for each in ranked if each[1].resize_to], key=lambda each: each[1].id)
    if policy.reclaims and board.quota.promises_anything:
        queue = [job for _, job in ranked if not job.resize_to]
        board.owners = _owners(queue, board)
        board.passed = _passed(queue, board) if policy.reservations else {}
    if not resized and not board.owners and not with_room:
        return (), ranked
    owners = [each for each in ranked if each[1].id in board.owners]
    first = board.owners | {job.id for _, job in resized}
    ahead = [*resized, *owners, *[each for each in with_room if each[1].id not in first]]
    first |= {job.id for _, job in ahead}
    return ahead, [each for each in ranked if each[1].id not in first]


def _with_room(ranked: Sequence[Ranked], board: Board) -> list[Ranked]:
    """Those for whom others were moved, and then the moved, while they fit there; of those before them in order only
    the more urgent."""
    with_room = [job for _, job in ranked if job.room_on and has_room(board, with_gpus(job, job.min_gpus))]
    theirs = {job.id: job.room_until_ms is not None for job in with_room}
    if not theirs:
        return []
    places = [number for number, (_, job) in enumerate(ranked) if job.id in theirs]
    least_urgent = max(ranked[number][1].priority for number in places)
    return sorted(
        [
            (rank, job)
            for rank, job in ranked[: places[-1] + 1]
            if job.id in theirs or job.priority < least_urgent
        ],
        key=lambda each: (each[1].priority, each[1].id not in theirs, theirs.get(each[1].id, False)),
    )


def _waiting(ranked: Sequence[Ranked], board: Board) -> list[PendingJob]:
    """Without those that still run elsewhere, and stand in the queue only for the place they move to."""
    return [job for _, job in ranked if job.id not in board.moving]


def _owners(queue: Sequence[PendingJob], board: Board) -> set[str]:
    """Of each team the first in order, as far as its guarantee goes: nobody passes one of the same team.

    One that asks for more than the whole guarantee holds nobody up: it can only ever borrow.
    """
    asked = Counter[tuple[str, str]]()
    closed: set[tuple[str, str]] = set()
    owners: set[str] = set()
    for job in queue:
        team = (job.team, job.gpu_type)
        if job.id in board.moving:  # its slots are counted where it still runs
            owners |= {job.id} if board.quota.guarantees(*team, 0) else set()
            continue
        if team in closed or job.min_gpus > board.quota.guaranteed(*team):
            continue
        asked[team] += job.min_gpus
        if board.quota.guarantees(*team, asked[team]):
            owners.add(job.id)
        else:
            closed.add(team)
    return owners


def _passed(queue: Sequence[PendingJob], board: Board) -> dict[str, PendingJob]:
    """Whoever within the guarantee goes before the first of the same team that can only borrow, though it comes later.

    Where that one waits for quota, those could use up what ends for as long as they come.
    """
    first: dict[tuple[str, str], PendingJob] = {}
    passed: dict[str, PendingJob] = {}
    for job in queue:
        team = (job.team, job.gpu_type)
        if team in first:
            if job.id in board.owners:
                passed[job.id] = first[team]
        elif job.id not in board.owners:
            least = with_gpus(job, job.min_gpus)
            if board.could_start(least):
                first[team] = least
    return passed


def _seated(board: Board, job: PendingJob) -> Placement | None:
    if job.id in board.passed:
        board.keep_quota(board.passed[job.id])
    if not elastic.is_elastic(job):
        place = board.place_for(job)
        return None if place is None else board.seat(job, place)
    for size in elastic.sizes(job, board.index.most_slots):
        asked = with_gpus(job, size)
        place = board.place_for(asked)
        if place is not None:
            return board.seat(asked, place, fewer_than=job.num_gpus if size < job.num_gpus else 0)
    return None


def _make_room(board: Board, policy: Policy, job: PendingJob, eviction: Eviction | None) -> bool:
    """Room from those who are leaving already, from elastic jobs and from borrowers, before anybody is evicted."""
    least = with_gpus(job, job.min_gpus)
    if promise(board, least):
        return True
    if not board.in_quota(least):
        return False
    shrunk = policy.elastic and elastic.shrink_for(board, least)
    if not shrunk and not (policy.reclaims and reclaim_for(board, least)):
        return False
    if eviction is not None:
        eviction.forget(board.stopping)
    return True


def _nothing_left(board: Board, policy: Policy) -> bool:
    """No free slot, and none that anybody gives up or could be made to, for whoever is no owner and deserves none."""
    return board.is_full() and not (board.reservations.coming or (policy.elastic and board.resizable))


def _may_make_room(board: Board, policy: Policy) -> bool:
    """Cheap: whether there is anybody at all who gives up slots, or could be made to without an eviction."""
    if board.reservations.coming or (policy.elastic and board.resizable):
        return True
    return policy.reclaims and board.quota.promises_anything


def _reserve(board: Board, policy: Policy, jobs: Sequence[PendingJob]) -> bool:
    """Keep places while the policy allows more; False when it does not.

    Of those that wait for quota only the first of all gets one: for the others it is too early, and one that has quota
    could use it. Until then the first of each team has its quota kept.
    """
    made, more = board.reservations.made, True
    for job in jobs:
        more = len(made) < policy.reservations
        least = with_gpus(job, job.min_gpus)
        if more and (not made or board.in_quota(least)):
            board.reservations.reserve(least)
        elif policy.reservations:
            board.keep_quota(least)
    return more


def _explained(decided: Decisions, policy: Policy) -> tuple[Wait, ...]:
    if not decided.waiting:
        return ()
    first = decided.waiting[0]
    explainer = Explainer(decided.board, decided.started, decided.stops)
    return tuple(
        explainer.wait(job, held_back_by="" if policy.skip_ahead or job is first else first.id)
        for job in decided.waiting
    )
