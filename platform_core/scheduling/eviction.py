"""Stopping running jobs for more deserving ones, where the policy allows it.

The order of the policy is laid over running and waiting jobs alike; whoever is within the cluster's capacity
in that order deserves its slots. A waiting job that deserves slots and finds no place for them gets it from running
jobs that deserve none, where the least GPU time is lost. Where these do not free a whole place, although enough
slots are free for it, smaller jobs are moved out of the way if the policy moves jobs: they deserve their slots too
and find them elsewhere. Room that was made is used in the round after they have stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from platform_core.cluster.snapshot import PendingJob, RunningJob
from platform_core.jobs.spec import Strategy
from platform_core.scheduling.board import Board
from platform_core.scheduling.decisions import Stop, StopKind
from platform_core.scheduling.estimates import lost_by_stopping_ms, remaining_ms
from platform_core.scheduling.lending import may_all_stop
from platform_core.scheduling.node_index import Demand
from platform_core.scheduling.offers import Held, Offer, Offers
from platform_core.scheduling.ordering.keys import KeyOfHeld, OrderKey

LEAST_RUN_BEFORE_A_MOVE_MS = 30 * 60_000
GAIN_OF_A_MOVE = 10  # GPU time of the job that gets the room, over the GPU time lost

Ranked = tuple[OrderKey, PendingJob]
Areas = tuple[int, ...]  # sets of nodes; see Site.areas


class Eviction:
    def __init__(self, board: Board, queue: Sequence[Ranked], held_key: KeyOfHeld, *, moves: bool) -> None:
        self.without_room: list[PendingJob] = []  # deserving, and yet nobody can be stopped for them
        self._board, self._moves = board, moves
        self._deserving, held = _divided(board, queue, held_key)
        # First those who deserve no slots; in each part the last in order.
        self._offers = Offers(board.counts, sorted(held, key=_is_deserving))
        self._nodes_of_team: dict[str, int] = {}
        if board.quota.promises_anything:
            for each in held:
                nodes = board.index.bits(node for node, _ in each.job.placement)
                self._nodes_of_team[each.job.team] = self._nodes_of_team.get(each.job.team, 0) | nodes
        self._failed: set[tuple[Demand, int]] = set()  # whoever comes later in order may stop fewer

    def is_undeserving(self, job: PendingJob) -> bool:
        return job.id not in self._deserving

    def forget(self, stopped: Iterable[str]) -> None:
        """These stop for another reason."""
        self._offers.forget(set(stopped))

    def make_room(self, job: PendingJob, key: OrderKey) -> None:
        """Choose whom to stop for a deserving job and keep the rest of the place for it, if that can help."""
        board = self._board
        if not board.in_quota(job):
            return
        each, offers = self._room(job, key)
        if not offers:
            self.without_room.append(job)
            return
        self._stop(job, each, offers)
        board.quota.take(job.team, job.gpu_type, job.num_gpus)

    def _room(self, job: PendingJob, key: OrderKey) -> tuple[int, list[Offer]]:
        """Slots on each node and the offers to take, none when too few nodes can give them."""
        site, quota = self._board.site, self._board.quota
        demand = site.demand(job)
        runtime_ms = remaining_ms(job) if site.windows else 0
        own = quota.promises_anything and job.num_gpus <= quota.guaranteed(job.team, job.gpu_type)
        failed = (demand, runtime_ms) in self._failed
        if failed and not own:
            return 0, []
        areas = site.areas(demand, runtime_ms)
        each, offers = (0, []) if failed else self._by_order(areas, demand, job, key, runtime_ms)
        return self._within_the_team(areas, demand, job, key) if own and not offers else (each, offers)

    def _by_order(
        self, areas: Areas, demand: Demand, job: PendingJob, key: OrderKey, runtime_ms: int
    ) -> tuple[int, list[Offer]]:
        guarded = self._board.quota.promises_anything
        each, offers = self._without_moves(areas, demand, job, key)
        if not offers and self._moves:
            each, offers = self._with_moves(areas, demand, job, key)
            if _lost(offers) * GAIN_OF_A_MOVE > remaining_ms(job) * job.num_gpus:
                self._board.too_dear = self._board.too_dear or [stop for _, stop in _stops(job, offers)]
                if guarded:  # most that could be stopped may not be: looking again costs more than it finds
                    self._failed.add((demand, runtime_ms))
                return 0, []  # a longer one of the same demand may be worth it
        if guarded and not may_all_stop(self._board, _stopped(offers)):
            offers = []
        if not offers:
            self._failed.add((demand, runtime_ms))
        return each, offers

    def _within_the_team(
        self, areas: Areas, demand: Demand, job: PendingJob, key: OrderKey
    ) -> tuple[int, list[Offer]]:
        """Within what it is guaranteed a team's own order decides: from its own jobs, and from borrowers."""
        mine = self._nodes_of_team.get(job.team, 0)
        for count in self._board.site.splits(demand):
            each = demand.gpus // count
            for area in areas:
                offers = self._offers.cheapest_of_all(
                    area & mine,
                    each,
                    count,
                    lambda held: self._may_stop(held, job, key) or _is_its_own(held, job, key),
                )
                if offers and may_all_stop(
                    self._board, [other for other in _stopped(offers) if other.team != job.team]
                ):
                    return each, offers
        return 0, []

    def _without_moves(
        self, areas: Areas, demand: Demand, job: PendingJob, key: OrderKey
    ) -> tuple[int, list[Offer]]:
        for count in self._board.site.splits(demand):
            each = demand.gpus // count
            found = [
                self._offers.cheapest(area, each, count, lambda held: self._may_stop(held, job, key))
                for area in areas
            ]
            if any(found):
                return each, min(filter(None, found), key=_lost)
        return 0, []

    def _with_moves(
        self, areas: Areas, demand: Demand, job: PendingJob, key: OrderKey
    ) -> tuple[int, list[Offer]]:
        for count in self._board.site.splits(demand):
            each = demand.gpus // count
            found = [
                self._offers.cheapest_of_all(area, each, count, lambda held: self._makes_way(held, job, key))
                for area in areas
            ]
            if any(found):
                return each, min(filter(None, found), key=_lost)
        return 0, []

    def _may_stop(self, held: Held, job: PendingJob, key: OrderKey) -> bool:
        """One that deserves no slots and comes later; not what another team is guaranteed."""
        if held.deserving or held.key <= key:
            return False
        board = self._board
        return not board.quota.promises_anything or board.surplus(held.job.team, job.gpu_type) > 0

    def _makes_way(self, held: Held, job: PendingJob, key: OrderKey) -> bool:
        """Only smaller jobs are moved, so that moves make larger free places and end; never more urgent ones."""
        if not held.deserving:
            return self._may_stop(held, job, key)
        ran_ms = self._board.snapshot.now_ms - held.job.started_ms
        smaller = held.slots < job.num_gpus
        return smaller and held.job.priority >= job.priority and ran_ms >= LEAST_RUN_BEFORE_A_MOVE_MS

    def _stop(self, job: PendingJob, each: int, offers: Sequence[Offer]) -> None:
        for held, stop in _stops(job, offers):
            self._board.stops.append(stop)
            self._board.stopping.add(stop.job_id)
            if stop.kind is StopKind.EVICTED:
                self._board.gives_up(held.job)
        for position, slots in self._offers.take(offers, each):
            self._board.take(position, slots)


def _stops(job: PendingJob, offers: Sequence[Offer]) -> list[tuple[Held, Stop]]:
    """Each job once, however many of the nodes it is on."""
    stopped = {held.job.id: held for offer in offers for held in offer.stopped}.values()
    kinds = {True: StopKind.MOVED, False: StopKind.EVICTED}
    return [(held, Stop(held.job.id, job.id, kinds[held.deserving], held.lost_gpu_ms)) for held in stopped]


def _is_its_own(held: Held, job: PendingJob, key: OrderKey) -> bool:
    return held.job.team == job.team and not held.deserving and held.key > key


def _stopped(offers: Sequence[Offer]) -> list[RunningJob]:
    """Whom the offers evict; who is moved comes back."""
    evicted = {held.job.id: held.job for offer in offers for held in offer.stopped if not held.deserving}
    return list(evicted.values())


def _is_deserving(held: Held) -> bool:
    return held.deserving


def _lost(offers: Sequence[Offer]) -> int:
    stopped = {held.job.id: held.lost_gpu_ms for offer in offers for held in offer.stopped}
    return sum(stopped.values())


def _divided(board: Board, queue: Sequence[Ranked], held_key: KeyOfHeld) -> tuple[set[str], list[Held]]:
    """Ids of the waiting jobs that deserve slots, and the running jobs that may be stopped, the last first."""
    left: dict[str, int] = {}
    for node in board.index.members(board.site.ready):
        left[node.gpu_type] = left.get(node.gpu_type, 0) + node.slots
    contenders: list[tuple[OrderKey, PendingJob | RunningJob]] = list(queue)
    for job in board.snapshot.running:
        if job.preemptible:
            contenders.append((held_key(job), job))
        else:
            left[job.gpu_type] = left.get(job.gpu_type, 0) - job.held
    contenders.sort(key=lambda contender: contender[0])
    waiting: set[str] = set()
    held: list[Held] = []
    for key, contender in contenders:
        gpus = contender.held if isinstance(contender, RunningJob) else contender.num_gpus
        deserving = gpus <= left.get(contender.gpu_type, 0)
        if deserving:
            left[contender.gpu_type] -= gpus
        if isinstance(contender, RunningJob):
            held.append(_held(board, key, contender, deserving=deserving))
        elif deserving:
            waiting.add(contender.id)
    held.reverse()
    return waiting, held


def _held(board: Board, key: OrderKey, job: RunningJob, *, deserving: bool) -> Held:
    position_of = board.index.position_of
    seats = tuple((position_of[node], len(slots)) for node, slots in job.placement if node in position_of)
    lost_gpu_ms = lost_by_stopping_ms(job, board.snapshot.now_ms) * job.held
    return Held(job, key, seats, job.held, lost_gpu_ms, deserving)


def as_if_waiting(job: RunningJob, now_ms: int) -> PendingJob:
    """The running job as it would stand in the queue if it were stopped now."""
    return PendingJob(
        id=job.id,
        team=job.team,
        user="",
        num_gpus=job.held,
        min_gpus=job.min_gpus,
        gpu_type=job.gpu_type,
        priority=job.priority,
        submitted_ms=job.submitted_ms,
        excluded_nodes=(),
        preemptible=job.preemptible,
        max_runtime_ms=job.max_runtime_ms,
        waiting_since_ms=now_ms,
        cpus_per_gpu=0,
        memory_per_gpu_bytes=0,
        strategy=Strategy.CUSTOM,
        attained_gpu_ms=job.attained_gpu_ms + max(0, now_ms - job.started_ms) * job.held,
        expected_runtime_ms=None if job.expected_end_ms is None else max(0, job.expected_end_ms - now_ms),
    )
