"""Eviction and migration of running jobs for entitled waiting jobs, where the policy allows it.

The order of the policy ranks running and waiting jobs together; the jobs that fit the cluster's capacity in that order
are entitled to their slots. An entitled waiting job without a place gets one from running jobs that are not entitled,
where the least GPU time is lost. If those do not free a whole place although enough slots are free, smaller jobs
migrate, if the policy migrates: they are entitled too and resume elsewhere. The slots are used in the round after the
jobs have stopped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from math import inf
from typing import NamedTuple

from platform_core.cluster.snapshot import PendingJob, RunningJob
from platform_core.scheduling.decisions import Stop, StopKind
from platform_core.scheduling.estimates import lost_by_stopping_ms, remaining_ms, with_gpus
from platform_core.scheduling.ordering import ORDERS
from platform_core.scheduling.ordering.keys import BY_KEY, KeyOfHeld, OrderKey
from platform_core.scheduling.placement.node_index import Demand
from platform_core.scheduling.placement.search import Place
from platform_core.scheduling.policy import Policy
from platform_core.scheduling.preemption.offers import AskedBy, Held, Offer, Offers
from platform_core.scheduling.preemption.reclaim import may_all_stop
from platform_core.scheduling.state.round_state import RoundState

LEAST_RUN_BEFORE_MIGRATION_MS = 30 * 60_000
GAIN_OF_MIGRATION = 10  # GPU time of the job that gets the place, over the GPU time lost
RESERVED_AFTER_GRACE_MS = 60_000  # a migrating job has stopped by then, or something is wrong

Ranked = tuple[OrderKey, PendingJob]
Areas = tuple[int, ...]  # sets of nodes; see ClusterView.areas


class VictimRule(NamedTuple):
    """Which running jobs may be stopped for a waiting one."""

    migrates: bool = False  # entitled jobs too, which resume elsewhere
    own: bool = False  # of jobs that are not entitled, only those of the same team
    in_exchange: bool = False  # use only slots of stopped jobs, no free ones


_WITHIN_QUOTA = (VictimRule(), VictimRule(migrates=True))
# When the team holds its maximum, only jobs of the team can free quota.
_BEYOND_QUOTA = (
    VictimRule(own=True),
    VictimRule(own=True, migrates=True),
    VictimRule(own=True, in_exchange=True),
)
Asked = tuple[Demand, int, int, tuple[VictimRule, ...], str]


class Eviction:
    def __init__(
        self, state: RoundState, queue: Sequence[Ranked], held_key: KeyOfHeld, policy: Policy
    ) -> None:
        self._state, self._policy = state, policy
        # Where equals may stop each other, all entitled jobs are served before any place is reserved.
        self.in_order = ORDERS[policy.order].only_more_urgent
        self._migrating: list[RunningJob] = []
        running = sorted(
            [(held_key(job), job) for job in state.snapshot.running if job.preemptible], key=BY_KEY
        )
        self._running = list(_cheapest_last(running, state.snapshot.now_ms)) if self.in_order else running
        self._entitled = _entitled(state, sorted([*queue, *self._running], key=BY_KEY))
        # Searches without result. A job later in order may stop fewer, so it fails too.
        self._failed: set[Asked] = set()

    @cached_property
    def _offers(self) -> Offers:
        """Candidates for eviction: those not entitled first, and in both parts the last in order first."""
        candidates = [
            _held(self._state, key, job, entitled=job.id in self._entitled)
            for key, job in reversed(self._running)
        ]
        return Offers(self._state.counts, self._state.reservations, sorted(candidates, key=_is_entitled))

    def ranked(self, queue: list[Ranked]) -> list[Ranked]:
        """The queue with the entitled jobs first, where equals may stop each other.

        Otherwise an evicted job could take the slots back. In other policies the order alone decides.
        """
        if self.in_order:
            return queue
        entitled = [ranked for ranked in queue if self.is_entitled(ranked[1])]
        return [*entitled, *[ranked for ranked in queue if not self.is_entitled(ranked[1])]]

    def is_entitled(self, job: PendingJob) -> bool:
        return job.id in self._entitled

    def forget(self, stopped: Iterable[str]) -> None:
        """These jobs stop for another reason and are no candidates any more."""
        self._offers.forget(set(stopped))

    def free_capacity_for(self, job: PendingJob, key: OrderKey) -> bool:
        """Stop jobs for an entitled one and hold the rest of the place for it; False where that cannot help."""
        state = self._state
        if not self.is_entitled(job) or job.num_gpus > (state.quota.maximum(job.team, job.gpu_type) or 0):
            return False
        if state.quota.blocked_by(job) is not None:
            return False
        slots_each, offers = self._offers_for(job, key)
        if not offers:
            return False
        self._stop(job, slots_each, offers)
        state.quota.take(job)
        return True

    def _offers_for(self, job: PendingJob, key: OrderKey) -> tuple[int, list[Offer]]:
        """Slots on each node and the offers to accept; none on nodes whose reservation the job would delay."""
        state, cluster = self._state, self._state.cluster
        demand = cluster.demand(job)
        runtime_ms = remaining_ms(job) if cluster.windows else 0
        reserved = state.reservations.reserved_within(remaining_ms(job))
        rules = _WITHIN_QUOTA if state.quota.short_of(job) <= 0 else _BEYOND_QUOTA
        asked = (demand, runtime_ms, reserved, rules, job.team if self._teams_matter(rules) else "")
        if asked in self._failed:
            return 0, []
        areas = tuple([area & ~reserved for area in cluster.areas(demand, runtime_ms)])
        for rule in rules:
            if rule.migrates and not self._policy.migrates:
                continue
            slots_each, offers = self._cheapest(areas, demand, job, key, rule)
            if rule.migrates and _lost(offers) * GAIN_OF_MIGRATION > remaining_ms(job) * job.num_gpus:
                state.reject_migration([stop for _, stop in _stops(job, offers)])
                if not state.quota.has_guarantees:
                    return 0, []  # a longer job of the same demand may be worth it
            elif offers and self._keeps_quotas(job, offers):
                return slots_each, offers
        self._failed.add(asked)
        return 0, []

    def _teams_matter(self, rules: Sequence[VictimRule]) -> bool:
        return self._state.quota.has_guarantees or rules is _BEYOND_QUOTA

    def _keeps_quotas(self, job: PendingJob, offers: Sequence[Offer]) -> bool:
        """True if the team stays within its maximum and no evicted job would start again first, by its guarantee."""
        quota, evicted = self._state.quota, _evicted(offers)
        own = sum([other.held for other in evicted if other.team == job.team])
        if own < quota.short_of(job):
            return False
        if not quota.has_guarantees:
            return True
        # A job within its team's guarantee goes before evicted jobs of its own team.
        can_only_borrow = job.min_gpus > quota.guaranteed(job.team, job.gpu_type)
        concerned = [other for other in evicted if can_only_borrow or other.team != job.team]
        return may_all_stop(self._state, concerned)

    def _cheapest(
        self, areas: Areas, demand: Demand, job: PendingJob, key: OrderKey, rule: VictimRule
    ) -> tuple[int, list[Offer]]:
        """The nodes where the least GPU time is lost, over the preferred number of nodes."""
        may_stop = self._may_move if rule.migrates else self._may_stop
        # What decides which jobs it may stop.
        asked_by: AskedBy = (rule.own, rule.in_exchange)
        if rule.migrates:
            asked_by = (*asked_by, job.num_gpus, job.priority)
        if rule.own or self._state.quota.has_guarantees:
            asked_by = (*asked_by, job.team)

        def may(held: Held) -> bool:
            return (not rule.own or held.entitled or held.job.team == job.team) and may_stop(held, job, key)

        for count in self._state.cluster.splits(demand):
            slots_each = demand.gpus // count
            offers = [
                self._offers.cheapest(area, slots_each, count, may, asked_by, in_exchange=rule.in_exchange)
                for area in areas
            ]
            if any(offers):
                return slots_each, min(filter(None, offers), key=_lost)
        return 0, []

    def _may_stop(self, held: Held, job: PendingJob, key: OrderKey) -> bool:
        """A job that is not entitled and comes later in order, of its own team or of one beyond its guarantee."""
        if held.entitled or not self._comes_later(held, job, key):
            return False
        state, team = self._state, held.job.team
        return not state.quota.has_guarantees or team == job.team or state.surplus(team, job.gpu_type) > 0

    def _comes_later(self, held: Held, job: PendingJob, key: OrderKey) -> bool:
        """Later in order, and it has run long enough: a job stopped right after each resumption makes no progress."""
        if held.key <= key or self._state.snapshot.now_ms - held.job.started_ms < self._policy.least_run_ms:
            return False
        return held.job.priority > job.priority or not (self.in_order or self._is_exempt(held.job))

    def _is_exempt(self, job: RunningJob) -> bool:
        """True if it was preempted so often that only a more urgent job may stop it."""
        return job.preemptions >= self._policy.most_preemptions

    def _may_move(self, held: Held, job: PendingJob, key: OrderKey) -> bool:
        """Only smaller jobs migrate, so that migrations defragment and come to an end; never more urgent ones."""
        if not held.entitled:
            return self._may_stop(held, job, key)
        ran_ms = self._state.snapshot.now_ms - held.job.started_ms
        smaller = held.slots < job.num_gpus and not self._is_exempt(held.job)
        return smaller and held.job.priority >= job.priority and ran_ms >= LEAST_RUN_BEFORE_MIGRATION_MS

    def _stop(self, job: PendingJob, slots_each: int, offers: Sequence[Offer]) -> None:
        state = self._state
        migrating: list[RunningJob] = []
        for held, stop in _stops(job, offers):
            state.stop([stop])
            if stop.kind is StopKind.EVICTED:
                state.release_surplus(held.job)
                state.quota.release(held.job)
            else:
                migrating.append(held.job)
        positions = sorted(offer.position for offer in offers)
        if migrating:
            state.reserve_nodes(job.id, positions)
            self._migrating.extend(migrating)
        for position, slots in self._offers.take(offers, slots_each):
            state.take(position, slots)
        stopped = {held.job.id: held.job for offer in offers for held in offer.stopped}
        state.reservations.replace(stopped.values(), Place(tuple(positions), slots_each), remaining_ms(job))

    def reserve_places(self) -> None:
        """Hold free slots for the migrating jobs, as long as stopping may take; some find none yet."""
        state, migrating = self._state, self._migrating
        self._migrating = []
        until_ms = state.snapshot.now_ms + self._policy.stop_grace_ms + RESERVED_AFTER_GRACE_MS
        for job in migrating:
            place = state.reserve_place(with_gpus(job.asks, job.held)) if job.asks is not None else None
            if place is not None:
                state.reserve_nodes(job.id, place.nodes, until_ms)


def _cheapest_last(
    running: Sequence[tuple[OrderKey, RunningJob]], now_ms: int
) -> Iterator[tuple[OrderKey, RunningJob]]:
    """Order equals by what stopping them loses, the most first: where no job is stopped for an equal, it is free to."""
    for _, equals in groupby(running, key=lambda ranked: ranked[0][0]):
        keys, jobs = zip(*equals, strict=True)
        yield from zip(keys, sorted(jobs, key=lambda job: -lost_by_stopping_ms(job, now_ms)), strict=True)


def _stops(job: PendingJob, offers: Sequence[Offer]) -> list[tuple[Held, Stop]]:
    """One stop for each job, even if it runs on several of the nodes."""
    stopped = {held.job.id: held for offer in offers for held in offer.stopped}.values()
    kinds = {True: StopKind.MOVED, False: StopKind.EVICTED}
    return [(held, Stop(held.job.id, job.id, kinds[held.entitled], held.lost_gpu_ms)) for held in stopped]


def _evicted(offers: Sequence[Offer]) -> list[RunningJob]:
    """The stopped jobs that do not resume at once, as migrating ones do."""
    evicted = {held.job.id: held.job for offer in offers for held in offer.stopped if not held.entitled}
    return list(evicted.values())


def _is_entitled(held: Held) -> bool:
    return held.entitled


def _lost(offers: Sequence[Offer]) -> int:
    stopped = {held.job.id: held.lost_gpu_ms for offer in offers for held in offer.stopped}
    return sum(stopped.values())


def _entitled(state: RoundState, contenders: Sequence[tuple[OrderKey, PendingJob | RunningJob]]) -> set[str]:
    """Ids of the jobs that fit the capacity and their team's maximum, beside the jobs that may not be stopped.

    `contenders` come in order.
    """
    left = {
        gpu_type: state.cluster.capacity.total(state.index.of_type(gpu_type) & state.cluster.ready)
        for gpu_type in state.index.gpu_types
    }
    maximum = defaultdict[tuple[str, str], float](lambda: inf)  # teams without quota are refused elsewhere
    maximum |= {(share.team, share.gpu_type): share.maximum for share in state.snapshot.teams}
    contending = {job.id for _, job in contenders}
    for job in state.snapshot.running:
        if job.id not in contending:
            left[job.gpu_type] = left.get(job.gpu_type, 0) - job.held
            maximum[job.team, job.gpu_type] -= job.held
    entitled: set[str] = set()
    for _, contender in contenders:
        gpus = contender.held if isinstance(contender, RunningJob) else contender.num_gpus
        team = (contender.team, contender.gpu_type)
        if gpus <= left.get(contender.gpu_type, 0) and gpus <= maximum[team]:
            left[contender.gpu_type] -= gpus
            maximum[team] -= gpus
            entitled.add(contender.id)
    return entitled


def _held(state: RoundState, key: OrderKey, job: RunningJob, *, entitled: bool) -> Held:
    position_of = state.index.position_of
    seats = tuple((position_of[node], len(slots)) for node, slots in job.placement if node in position_of)
    lost_gpu_ms = lost_by_stopping_ms(job, state.snapshot.now_ms) * job.held
    return Held(job, key, seats, job.held, lost_gpu_ms, entitled)
