"""Stopping running jobs for more deserving ones, where the policy allows it.

The order of the policy is laid over running and waiting jobs alike; whoever is within the cluster's capacity
in that order deserves its slots. A waiting job that deserves slots and finds no place for them gets it from running
jobs that deserve none, where the least GPU time is lost. Where these do not free a whole place, although enough
slots are free for it, smaller jobs are moved out of the way if the policy moves jobs: they deserve their slots too
and find them elsewhere. Room that was made is used in the round after they have stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby

from platform_core.cluster.snapshot import PendingJob, RunningJob
from platform_core.scheduling.board import Board
from platform_core.scheduling.decisions import Room, Stop, StopKind
from platform_core.scheduling.estimates import lost_by_stopping_ms, remaining_ms, with_gpus
from platform_core.scheduling.lending import may_all_stop
from platform_core.scheduling.node_index import Demand
from platform_core.scheduling.offers import Held, Offer, Offers
from platform_core.scheduling.ordering import ORDERS
from platform_core.scheduling.ordering.keys import BY_KEY, KeyOfHeld, OrderKey
from platform_core.scheduling.placement import Place
from platform_core.scheduling.policy import Policy
from platform_core.scheduling.stopping import keep_place

LEAST_RUN_BEFORE_A_MOVE_MS = 30 * 60_000
GAIN_OF_A_MOVE = 10  # GPU time of the job that gets the room, over the GPU time lost
# The place of one that moves; by then it has stopped, or something is wrong.
KEPT_AFTER_THE_GRACE_MS = 60_000

Ranked = tuple[OrderKey, PendingJob]
Areas = tuple[int, ...]  # sets of nodes; see Site.areas
Asked = tuple[Demand, int, int]


class Eviction:
    def __init__(self, board: Board, queue: Sequence[Ranked], held_key: KeyOfHeld, policy: Policy) -> None:
        self._board, self._policy = board, policy
        # Where equals stop each other, all of them make room before a place is kept: then few are needed.
        self.in_order = ORDERS[policy.order].only_more_urgent
        self._moved: list[RunningJob] = []
        running = sorted(
            [(held_key(job), job) for job in board.snapshot.running if job.preemptible], key=BY_KEY
        )
        self._running = list(_cheapest_last(running, board.snapshot.now_ms)) if self.in_order else running
        self._deserving = _deserving(board, sorted([*queue, *self._running], key=BY_KEY))
        # Whoever comes later in order may stop fewer. With how long it runs and what is kept from it, if that matters.
        self._failed: set[Asked] = set()

    @cached_property
    def _offers(self) -> Offers:
        """First those who deserve no slots; in each part the last in order. Most rounds need none."""
        held = [
            _held(self._board, key, job, deserving=job.id in self._deserving)
            for key, job in reversed(self._running)
        ]
        free = self._board.reservations.freed
        return Offers(self._board.counts, free, sorted(held, key=_is_deserving))

    @cached_property
    def _nodes_of_team(self) -> dict[str, int]:
        nodes: dict[str, int] = {}
        for _, job in self._running:
            mine = self._board.index.bits(node for node, _ in job.placement)
            nodes[job.team] = nodes.get(job.team, 0) | mine
        return nodes

    def ranked(self, queue: list[Ranked]) -> list[Ranked]:
        """Where equals stop each other those go first who deserve slots: the room made for one is not for those who
        would be evicted from it. Otherwise nobody passes whoever comes before, but beside a place kept for it."""
        if self.in_order:
            return queue
        deserving = self._deserving
        first = [each for each in queue if each[1].id in deserving]
        return [*first, *[each for each in queue if each[1].id not in deserving]]

    def is_deserving(self, job: PendingJob) -> bool:
        return job.id in self._deserving

    def forget(self, stopped: Iterable[str]) -> None:
        """These stop for another reason."""
        self._offers.forget(set(stopped))

    def make_room(self, job: PendingJob, key: OrderKey) -> bool:
        """Choose whom to stop for a deserving job and keep the rest of the place for it, if that can help."""
        board = self._board
        if not board.in_quota(job):
            return False
        each, offers = self._room(job, key)
        if not offers:
            return False
        self._stop(job, each, offers)
        board.quota.take(job)
        return True

    def _room(self, job: PendingJob, key: OrderKey) -> tuple[int, list[Offer]]:
        """Slots on each node and the offers to take, none when too few nodes can give them. Not where a place is kept
        that it would reach into."""
        site, quota = self._board.site, self._board.quota
        demand = site.demand(job)
        runtime_ms = remaining_ms(job) if site.windows else 0
        kept = self._board.reservations.kept_within(remaining_ms(job))
        own = quota.promises_anything and job.num_gpus <= quota.guaranteed(job.team, job.gpu_type)
        asked = (demand, runtime_ms, kept)
        failed = asked in self._failed
        if failed and not own:
            return 0, []
        areas = tuple([area & ~kept for area in site.areas(demand, runtime_ms)])
        each, offers = (0, []) if failed else self._by_order(areas, asked, job, key)
        return self._within_the_team(areas, demand, job, key) if own and not offers else (each, offers)

    def _by_order(
        self, areas: Areas, asked: Asked, job: PendingJob, key: OrderKey
    ) -> tuple[int, list[Offer]]:
        guarded = self._board.quota.promises_anything
        each, offers = self._without_moves(areas, asked[0], job, key)
        if not offers and self._policy.moves:
            each, offers = self._with_moves(areas, asked[0], job, key)
            if _lost(offers) * GAIN_OF_A_MOVE > remaining_ms(job) * job.num_gpus:
                self._board.too_dear = self._board.too_dear or [stop for _, stop in _stops(job, offers)]
                if guarded:  # most that could be stopped may not be: looking again costs more than it finds
                    self._failed.add(asked)
                return 0, []  # a longer one of the same demand may be worth it
        if guarded and not may_all_stop(self._board, _stopped(offers)):
            offers = []
        if not offers:
            self._failed.add(asked)
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
                    lambda held: self._may_stop(held, job, key) or self._is_its_own(held, job, key),
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
        asked_by = (job.num_gpus, job.priority)  # they decide which deserving jobs make way
        for count in self._board.site.splits(demand):
            each = demand.gpus // count
            found = [
                self._offers.cheapest(
                    area, each, count, lambda held: self._makes_way(held, job, key), asked_by
                )
                for area in areas
            ]
            if any(found):
                return each, min(filter(None, found), key=_lost)
        return 0, []

    def _may_stop(self, held: Held, job: PendingJob, key: OrderKey) -> bool:
        """One that deserves no slots and comes later; not what another team is guaranteed."""
        if held.deserving or not self._comes_later(held, job, key):
            return False
        board = self._board
        return not board.quota.promises_anything or board.surplus(held.job.team, job.gpu_type) > 0

    def _comes_later(self, held: Held, job: PendingJob, key: OrderKey) -> bool:
        """And has run for long enough: who is stopped each time it has loaded its checkpoint never gets on."""
        if held.key <= key or self._board.snapshot.now_ms - held.job.started_ms < self._policy.least_run_ms:
            return False
        return not self.in_order or held.job.priority > job.priority

    def _is_its_own(self, held: Held, job: PendingJob, key: OrderKey) -> bool:
        return held.job.team == job.team and not held.deserving and self._comes_later(held, job, key)

    def _makes_way(self, held: Held, job: PendingJob, key: OrderKey) -> bool:
        """Only smaller jobs are moved, so that moves make larger free places and end; never more urgent ones."""
        if not held.deserving:
            return self._may_stop(held, job, key)
        ran_ms = self._board.snapshot.now_ms - held.job.started_ms
        smaller = held.slots < job.num_gpus
        return smaller and held.job.priority >= job.priority and ran_ms >= LEAST_RUN_BEFORE_A_MOVE_MS

    def _stop(self, job: PendingJob, each: int, offers: Sequence[Offer]) -> None:
        moved: list[RunningJob] = []
        for held, stop in _stops(job, offers):
            self._board.stops.append(stop)
            self._board.stopping.add(stop.job_id)
            if stop.kind is StopKind.EVICTED:
                self._board.gives_up(held.job)
            else:
                moved.append(held.job)
        if moved:
            nodes = [self._board.index.nodes[offer.position].id for offer in offers]
            self._board.rooms.append(Room(job.id, tuple(sorted(nodes))))
            self._moved.extend(moved)
        for position, slots in self._offers.take(offers, each):
            self._board.take(position, slots)
        place = Place(tuple(sorted(offer.position for offer in offers)), each)
        stopped = {held.job.id: held.job for offer in offers for held in offer.stopped}
        self._board.reservations.replace(stopped.values(), place, remaining_ms(job))

    def keep_places(self) -> None:
        """Of what is free now, for those that are moved and as long as it may take to stop; some fit nowhere yet."""
        board, moved = self._board, self._moved
        self._moved = []
        until_ms = board.snapshot.now_ms + self._policy.stop_grace_ms + KEPT_AFTER_THE_GRACE_MS
        for job in moved:
            place = keep_place(board, with_gpus(job.asks, job.held)) if job.asks is not None else None
            if place is not None:
                nodes = [board.index.nodes[position].id for position in place.nodes]
                board.rooms.append(Room(job.id, tuple(sorted(nodes)), until_ms))


def _cheapest_last(
    running: Sequence[tuple[OrderKey, RunningJob]], now_ms: int
) -> Iterator[tuple[OrderKey, RunningJob]]:
    """Where nobody is stopped for an equal, who of equals goes first may be who would lose most, not who came first."""
    for _, equals in groupby(running, key=lambda each: each[0][0]):
        keys, jobs = zip(*equals, strict=True)
        yield from zip(keys, sorted(jobs, key=lambda job: -lost_by_stopping_ms(job, now_ms)), strict=True)


def _stops(job: PendingJob, offers: Sequence[Offer]) -> list[tuple[Held, Stop]]:
    """Each job once, however many of the nodes it is on."""
    stopped = {held.job.id: held for offer in offers for held in offer.stopped}.values()
    kinds = {True: StopKind.MOVED, False: StopKind.EVICTED}
    return [(held, Stop(held.job.id, job.id, kinds[held.deserving], held.lost_gpu_ms)) for held in stopped]


def _stopped(offers: Sequence[Offer]) -> list[RunningJob]:
    """Whom the offers evict; who is moved comes back."""
    evicted = {held.job.id: held.job for offer in offers for held in offer.stopped if not held.deserving}
    return list(evicted.values())


def _is_deserving(held: Held) -> bool:
    return held.deserving


def _lost(offers: Sequence[Offer]) -> int:
    stopped = {held.job.id: held.lost_gpu_ms for offer in offers for held in offer.stopped}
    return sum(stopped.values())


def _deserving(board: Board, contenders: Sequence[tuple[OrderKey, PendingJob | RunningJob]]) -> set[str]:
    """Ids of those who are within the capacity, besides what may not be stopped; they come in order."""
    left = {
        gpu_type: board.site.capacity.total(board.index.of_type(gpu_type) & board.site.ready)
        for gpu_type in board.index.gpu_types
    }
    contending = {each.id for _, each in contenders}
    for job in board.snapshot.running:
        if job.id not in contending:
            left[job.gpu_type] = left.get(job.gpu_type, 0) - job.held
    deserving: set[str] = set()
    for _, each in contenders:
        gpus = each.held if isinstance(each, RunningJob) else each.num_gpus
        if gpus <= left.get(each.gpu_type, 0):
            left[each.gpu_type] -= gpus
            deserving.add(each.id)
    return deserving


def _held(board: Board, key: OrderKey, job: RunningJob, *, deserving: bool) -> Held:
    position_of = board.index.position_of
    seats = tuple((position_of[node], len(slots)) for node, slots in job.placement if node in position_of)
    lost_gpu_ms = lost_by_stopping_ms(job, board.snapshot.now_ms) * job.held
    return Held(job, key, seats, job.held, lost_gpu_ms, deserving)
