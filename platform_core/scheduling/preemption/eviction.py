"""Stopping running jobs for more deserving ones, where the policy allows it.

The order of the policy is laid over running and waiting jobs alike; whoever is within the cluster's capacity
in that order deserves its slots. A waiting job that deserves slots and finds no place for them gets it from running
jobs that deserve none, where the least GPU time is lost. Where these do not free a whole place, although enough
slots are free for it, smaller jobs are moved out of the way if the policy moves jobs: they deserve their slots too
and find them elsewhere. Room that was made is used in the round after they have stopped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from math import inf
from typing import NamedTuple

from platform_core.cluster.snapshot import PendingJob, RunningJob
from platform_core.scheduling.decisions import Room, Stop, StopKind
from platform_core.scheduling.estimates import lost_by_stopping_ms, remaining_ms, with_gpus
from platform_core.scheduling.ordering import ORDERS
from platform_core.scheduling.ordering.keys import BY_KEY, KeyOfHeld, OrderKey
from platform_core.scheduling.placement.node_index import Demand
from platform_core.scheduling.placement.search import Place
from platform_core.scheduling.policy import Policy
from platform_core.scheduling.preemption.offers import AskedBy, Held, Offer, Offers
from platform_core.scheduling.preemption.reclaim import may_all_stop
from platform_core.scheduling.state.round_state import Board
from platform_core.scheduling.state.what_if import keep_place

LEAST_RUN_BEFORE_A_MOVE_MS = 30 * 60_000
GAIN_OF_A_MOVE = 10  # GPU time of the job that gets the room, over the GPU time lost
# The place of one that moves; by then it has stopped, or something is wrong.
KEPT_AFTER_THE_GRACE_MS = 60_000

Ranked = tuple[OrderKey, PendingJob]
Areas = tuple[int, ...]  # sets of nodes; see Site.areas


class Way(NamedTuple):
    """Whom room is made from."""

    moves: bool = False  # also from those who deserve their slots, and find them elsewhere
    own: bool = False  # evict only jobs of the same team
    in_exchange: bool = False  # and take their place, whatever else is free


_WITHIN_QUOTA = (Way(), Way(moves=True))
# Where the team holds its maximum: only what it gives up itself makes room in that.
_BEYOND_QUOTA = (Way(own=True), Way(own=True, moves=True), Way(own=True, in_exchange=True))
Asked = tuple[Demand, int, int, tuple[Way, ...], str]


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
        # Whoever comes later in order may stop fewer. With what else matters: run time, what is kept from it, team.
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
        if job.num_gpus > (board.quota.maximum(job.team, job.gpu_type) or 0):
            return False
        if board.quota.kept_from(job) is not None:
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
        board, site = self._board, self._board.site
        demand = site.demand(job)
        runtime_ms = remaining_ms(job) if site.windows else 0
        kept = board.reservations.kept_within(remaining_ms(job))
        ways = _WITHIN_QUOTA if board.quota.short_of(job) <= 0 else _BEYOND_QUOTA
        asked = (demand, runtime_ms, kept, ways, job.team if self._teams_matter(ways) else "")
        if asked in self._failed:
            return 0, []
        areas = tuple([area & ~kept for area in site.areas(demand, runtime_ms)])
        for way in ways:
            if way.moves and not self._policy.moves:
                continue
            each, offers = self._cheapest(areas, demand, job, key, way)
            if way.moves and _lost(offers) * GAIN_OF_A_MOVE > remaining_ms(job) * job.num_gpus:
                board.too_dear = board.too_dear or [stop for _, stop in _stops(job, offers)]
                if not board.quota.promises_anything:
                    return 0, []  # a longer one of the same demand may be worth it
            elif offers and self._keeps_quotas(job, offers):
                return each, offers
        self._failed.add(asked)
        return 0, []

    def _teams_matter(self, ways: Sequence[Way]) -> bool:
        return self._board.quota.promises_anything or ways is _BEYOND_QUOTA

    def _keeps_quotas(self, job: PendingJob, offers: Sequence[Offer]) -> bool:
        """Its team stays within its maximum, and nobody is stopped who goes first again within a guarantee."""
        quota, evicted = self._board.quota, _evicted(offers)
        own = sum([other.held for other in evicted if other.team == job.team])
        if own < quota.short_of(job):
            return False
        if not quota.promises_anything:
            return True
        # Within the guarantee of its own team it goes before those that it stops.
        can_only_borrow = job.min_gpus > quota.guaranteed(job.team, job.gpu_type)
        concerned = [other for other in evicted if can_only_borrow or other.team != job.team]
        return may_all_stop(self._board, concerned)

    def _cheapest(
        self, areas: Areas, demand: Demand, job: PendingJob, key: OrderKey, way: Way
    ) -> tuple[int, list[Offer]]:
        """Where the least is lost, on as many nodes as are most welcome."""
        may_stop = self._makes_way if way.moves else self._may_stop
        # What decides whom it may stop.
        asked_by: AskedBy = (way.own, way.in_exchange)
        if way.moves:
            asked_by = (*asked_by, job.num_gpus, job.priority)
        if way.own or self._board.quota.promises_anything:
            asked_by = (*asked_by, job.team)

        def may(held: Held) -> bool:
            return (not way.own or held.deserving or held.job.team == job.team) and may_stop(held, job, key)

        for count in self._board.site.splits(demand):
            each = demand.gpus // count
            found = [
                self._offers.cheapest(area, each, count, may, asked_by, in_exchange=way.in_exchange)
                for area in areas
            ]
            if any(found):
                return each, min(filter(None, found), key=_lost)
        return 0, []

    def _may_stop(self, held: Held, job: PendingJob, key: OrderKey) -> bool:
        """One that deserves no slots and comes later: of its own team, or of one beyond its guarantee."""
        if held.deserving or not self._comes_later(held, job, key):
            return False
        board, team = self._board, held.job.team
        return not board.quota.promises_anything or team == job.team or board.surplus(team, job.gpu_type) > 0

    def _comes_later(self, held: Held, job: PendingJob, key: OrderKey) -> bool:
        """And has run for long enough: who is stopped each time it has loaded its checkpoint never gets on."""
        if held.key <= key or self._board.snapshot.now_ms - held.job.started_ms < self._policy.least_run_ms:
            return False
        return held.job.priority > job.priority or not (self.in_order or self._has_made_way(held.job))

    def _has_made_way(self, job: RunningJob) -> bool:
        """So often that only a more urgent job stops it: who is stopped again and again never gets on."""
        return job.preemptions >= self._policy.most_preemptions

    def _makes_way(self, held: Held, job: PendingJob, key: OrderKey) -> bool:
        """Only smaller jobs are moved, so that moves make larger free places and end; never more urgent ones."""
        if not held.deserving:
            return self._may_stop(held, job, key)
        ran_ms = self._board.snapshot.now_ms - held.job.started_ms
        smaller = held.slots < job.num_gpus and not self._has_made_way(held.job)
        return smaller and held.job.priority >= job.priority and ran_ms >= LEAST_RUN_BEFORE_A_MOVE_MS

    def _stop(self, job: PendingJob, each: int, offers: Sequence[Offer]) -> None:
        moved: list[RunningJob] = []
        for held, stop in _stops(job, offers):
            self._board.stops.append(stop)
            self._board.stopping.add(stop.job_id)
            if stop.kind is StopKind.EVICTED:
                self._board.gives_up(held.job)
                self._board.quota.leave(held.job)
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


def _evicted(offers: Sequence[Offer]) -> list[RunningJob]:
    """Who does not come back at once, as those do that are moved."""
    evicted = {held.job.id: held.job for offer in offers for held in offer.stopped if not held.deserving}
    return list(evicted.values())


def _is_deserving(held: Held) -> bool:
    return held.deserving


def _lost(offers: Sequence[Offer]) -> int:
    stopped = {held.job.id: held.lost_gpu_ms for offer in offers for held in offer.stopped}
    return sum(stopped.values())


def _deserving(board: Board, contenders: Sequence[tuple[OrderKey, PendingJob | RunningJob]]) -> set[str]:
    """Ids of those who are within the capacity and the maximum of their team, besides what may not be stopped; they
    come in order."""
    left = {
        gpu_type: board.site.capacity.total(board.index.of_type(gpu_type) & board.site.ready)
        for gpu_type in board.index.gpu_types
    }
    most = defaultdict[tuple[str, str], float](lambda: inf)  # what may start at all is decided elsewhere
    most |= {(share.team, share.gpu_type): share.maximum for share in board.snapshot.teams}
    contending = {each.id for _, each in contenders}
    for job in board.snapshot.running:
        if job.id not in contending:
            left[job.gpu_type] = left.get(job.gpu_type, 0) - job.held
            most[job.team, job.gpu_type] -= job.held
    deserving: set[str] = set()
    for _, each in contenders:
        gpus = each.held if isinstance(each, RunningJob) else each.num_gpus
        team = (each.team, each.gpu_type)
        if gpus <= left.get(each.gpu_type, 0) and gpus <= most[team]:
            left[each.gpu_type] -= gpus
            most[team] -= gpus
            deserving.add(each.id)
    return deserving


def _held(board: Board, key: OrderKey, job: RunningJob, *, deserving: bool) -> Held:
    position_of = board.index.position_of
    seats = tuple((position_of[node], len(slots)) for node, slots in job.placement if node in position_of)
    lost_gpu_ms = lost_by_stopping_ms(job, board.snapshot.now_ms) * job.held
    return Held(job, key, seats, job.held, lost_gpu_ms, deserving)
