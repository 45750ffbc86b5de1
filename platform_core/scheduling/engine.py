"""One round of scheduling: `plan(snapshot, policy)` decides which jobs start where and why each other job waits.

Jobs are tried in the order of the policy. A job that does not fit is skipped and the next is tried, unless the policy
forbids it; the first jobs that do not fit may get reservations, which jobs after them must not delay. The cost of a
round grows with the number of different demands and of placements, not of pending jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from platform_core.cluster.snapshot import PendingJob, Snapshot
from platform_core.scheduling.decisions import Placement, Plan, Stop, Wait
from platform_core.scheduling.estimates import with_gpus
from platform_core.scheduling.explain.wait_reasons import Explainer
from platform_core.scheduling.ordering import ORDERS
from platform_core.scheduling.ordering.keys import BY_KEY
from platform_core.scheduling.placement.search import Place
from platform_core.scheduling.policy import Policy
from platform_core.scheduling.preemption import elastic
from platform_core.scheduling.preemption.eviction import Eviction, Ranked
from platform_core.scheduling.preemption.reclaim import reclaim_for
from platform_core.scheduling.reservations.nodes import Reservation
from platform_core.scheduling.state.kept_places import KeptPlaces, without_paused
from platform_core.scheduling.state.owners import overtaken_by, owners_of
from platform_core.scheduling.state.place_choice import as_left, find_place
from platform_core.scheduling.state.round_state import RoundState
from platform_core.scheduling.state.what_if import claim_released, count_stopping_jobs, fits_reserved_nodes

Started = tuple[PendingJob, Placement]


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions of a round, before the waits are explained."""

    started: list[Started]
    waiting: list[PendingJob]
    ranked: list[Ranked]
    stops: tuple[Stop, ...]
    state: RoundState
    unreserved: list[PendingJob]  # see reserve_places

    @property
    def order(self) -> tuple[str, ...]:
        return tuple([job.id for _, job in self.ranked])


def plan(snapshot: Snapshot, policy: Policy | None = None) -> Plan:
    policy = policy or Policy()
    decided = decide(snapshot, policy)
    reserve_places(decided, policy)
    return Plan(
        placements=tuple(placement for _, placement in decided.started),
        waits=_explained(decided, policy),
        order=decided.order,
        stops=decided.stops,
        node_reservations=tuple(decided.state.node_reservations),
    )


def decide(snapshot: Snapshot, policy: Policy) -> Decisions:
    """The decisions of a round without explanations, for callers that replay thousands of rounds."""
    snapshot, paused = without_paused(snapshot)
    state = RoundState(snapshot)
    kept = KeptPlaces(state, paused)
    count_stopping_jobs(state)
    ranked, privileged, eviction = _ranked(state, policy, kept)
    started, waiting, unreserved = list[Started](), list[PendingJob](), list[PendingJob]()
    for number, (rank, job) in enumerate(ranked):
        kept.next_turn(job, started)
        if number == privileged and eviction is not None:
            eviction.reserve_places()
        if number >= privileged and _is_exhausted(state, policy):
            waiting.extend(rest := _waiting(ranked[number:], state))
            unreserved.extend(rest)
            break
        if number == privileged:
            _reserve(state, policy, unreserved)
            unreserved.clear()
        if state.is_migrating(job.id):
            state.reserve_place(job)
            continue
        if (placement := _started(state, policy, job)) is not None:
            started.append((job, placement))
            continue
        waiting.append(as_left(state, job))
        if _is_freed_for(state, policy, (rank, job), eviction):
            continue
        if eviction and eviction.is_entitled(job) and not eviction.in_order:
            unreserved.append(job)
            _reserve_quota(state, policy, job)
            continue
        if not _reserve(state, policy, [job]) and not policy.skip_ahead:
            waiting.extend(_waiting(ranked[number + 1 :], state))
            break
    kept.end_turn(started)
    if eviction is not None:
        eviction.reserve_places()
    if policy.elastic:
        elastic.grow(state, waiting)
    ranked = [entry for entry in ranked if not state.is_migrating(entry[1].id)]
    return Decisions(started, [*waiting, *paused], ranked, tuple(state.stops), state, unreserved)


def _ranked(state: RoundState, policy: Policy, kept: KeptPlaces) -> tuple[list[Ranked], int, Eviction | None]:
    """The queue in order, how many of its first jobs are privileged, and the eviction of the policy.

    Privileged jobs are tried even when nothing is free: those put first by `_put_first`, and the entitled ones.
    """
    keys = ORDERS[policy.order].keys(state.snapshot)
    queue = [*state.snapshot.pending, *state.migrating]
    ranked = sorted([(keys.waiting(job), job) for job in queue], key=BY_KEY)
    eviction = Eviction(state, ranked, keys.running, policy) if policy.evicts else None
    if eviction is not None:
        ranked = eviction.ranked(ranked)
    ahead, behind = _put_first(ranked, state, policy)
    entitled = [number for number, (_, job) in enumerate(behind, 1) if eviction and eviction.is_entitled(job)]
    ranked, privileged = kept.put_first([*ahead, *behind], len(ahead) + max(entitled, default=0))
    return ranked, privileged, eviction


def reserve_places(decided: Decisions, policy: Policy) -> Sequence[Reservation]:
    """All reservations, with those that no job of this round can delay: they only tell when a job will start."""
    _reserve(decided.state, policy, decided.unreserved)
    return decided.state.reservations.made


def _put_first(
    ranked: list[Ranked], state: RoundState, policy: Policy
) -> tuple[Sequence[Ranked], Sequence[Ranked]]:
    """The queue in two parts. First come resized jobs, then owners, then jobs with reserved nodes.

    Resized jobs have their slots planned already. Without this order a borrower that comes earlier could take the
    reclaimed slots again, and a smaller job (even the migrated one) the slots freed for a gang.
    """
    with_nodes = _with_reserved_nodes(ranked, state)
    if with_nodes:
        ids = {job.id for _, job in with_nodes}
        ranked = [*with_nodes, *[entry for entry in ranked if entry[1].id not in ids]]
    resized = sorted([entry for entry in ranked if entry[1].resize_to], key=lambda entry: entry[1].id)
    if policy.reclaims and state.quota.has_guarantees:
        queue = [job for _, job in ranked if not job.resize_to]
        owners = owners_of(queue, state)
        state.set_owners(owners, overtaken_by(queue, state, owners) if policy.reservations else {})
    if not resized and not state.owners and not with_nodes:
        return (), ranked
    owners_first = [entry for entry in ranked if entry[1].id in state.owners]
    first = state.owners | {job.id for _, job in resized}
    ahead = [*resized, *owners_first, *[entry for entry in with_nodes if entry[1].id not in first]]
    first |= {job.id for _, job in ahead}
    return ahead, [entry for entry in ranked if entry[1].id not in first]


def _with_reserved_nodes(ranked: Sequence[Ranked], state: RoundState) -> list[Ranked]:
    """Jobs for which others migrated, then the migrated ones, while they fit their reserved nodes.

    Of the jobs before them in order, only the more urgent stay before them.
    """
    migrates = {
        job.id: job.reserved_until_ms is not None
        for _, job in ranked
        if job.reserved_nodes and fits_reserved_nodes(state, with_gpus(job, job.min_gpus))
    }
    if not migrates:
        return []
    numbers = [number for number, (_, job) in enumerate(ranked) if job.id in migrates]
    least_urgent = max(ranked[number][1].priority for number in numbers)
    return sorted(
        [
            (rank, job)
            for rank, job in ranked[: numbers[-1] + 1]
            if job.id in migrates or job.priority < least_urgent
        ],
        key=lambda entry: (entry[1].priority, entry[1].id not in migrates, migrates.get(entry[1].id, False)),
    )


def _waiting(ranked: Sequence[Ranked], state: RoundState) -> list[PendingJob]:
    """The queue without migrating jobs, which still run."""
    return [job for _, job in ranked if not state.is_migrating(job.id)]


def _started(state: RoundState, policy: Policy, job: PendingJob) -> Placement | None:
    if job.id in state.overtaken:
        state.reserve_quota(state.overtaken[job.id])
    if not elastic.is_elastic(job):
        place = find_place(state, policy, job)
        return state.place_job(job, place) if isinstance(place, Place) else None
    for size in elastic.sizes(job, state.index.most_slots):
        asked = with_gpus(job, size)
        place = state.find_place(asked)
        if place is not None:
            return state.place_job(asked, place, fewer_than=job.num_gpus if size < job.num_gpus else 0)
    return None


def _is_freed_for(state: RoundState, policy: Policy, entry: Ranked, eviction: Eviction | None) -> bool:
    """Whether other jobs release slots for it.

    Until it starts, its team begins nothing that the guarantee would have to cover as well: it would no longer come
    before the jobs that stopped for it.
    """
    rank, job = entry
    freed = _free_capacity(state, policy, job, eviction) or (
        eviction is not None and eviction.free_capacity_for(job, rank)
    )
    if freed and job.id in state.owners and job.id not in state.left_places:
        state.quota.keep_guarantee(with_gpus(job, job.min_gpus))
    return freed


def _free_capacity(state: RoundState, policy: Policy, job: PendingJob, eviction: Eviction | None) -> bool:
    """Take slots from stopping jobs, then from elastic jobs, then from borrowers, before any job is evicted."""
    if job.id in state.left_places or not _may_free_capacity(state, policy):
        return job.id in state.left_places  # it could start, and needs none of them
    least = with_gpus(job, job.min_gpus)
    if claim_released(state, least):
        return True
    if not state.in_quota(least):
        return False
    shrunk = policy.elastic and elastic.shrink_for(state, least)
    if not shrunk and not (policy.reclaims and reclaim_for(state, least)):
        return False
    if eviction is not None:
        eviction.forget(state.stopping)
    return True


def _is_exhausted(state: RoundState, policy: Policy) -> bool:
    """No slot is free or can be freed for a job that is neither owner nor entitled."""
    return state.is_full() and not (state.reservations.releasing or (policy.elastic and state.resizable))


def _may_free_capacity(state: RoundState, policy: Policy) -> bool:
    """Cheap test: False if no job releases slots or could be made to without eviction."""
    if state.reservations.releasing or (policy.elastic and state.resizable):
        return True
    return policy.reclaims and state.quota.has_guarantees


def _reserve(state: RoundState, policy: Policy, jobs: Sequence[PendingJob]) -> bool:
    """Reserve places while the policy allows more; False when it does not.

    Of the jobs that wait for quota only the very first gets one, as a job with quota could use the others. Until then
    the first job of each team has its quota reserved.
    """
    made, more = state.reservations.made, True
    for job in jobs:
        more = len(made) < policy.reservations
        least = with_gpus(job, job.min_gpus)
        if more and (not made or state.in_quota(least)):
            state.reservations.reserve(least)
        else:
            _reserve_quota(state, policy, job)
    return more


def _reserve_quota(state: RoundState, policy: Policy, job: PendingJob) -> None:
    """Or the smaller jobs of its team could hold for ever what it waits for."""
    if policy.reservations:
        state.reserve_quota(with_gpus(job, job.min_gpus))


def _explained(decided: Decisions, policy: Policy) -> tuple[Wait, ...]:
    if not decided.waiting:
        return ()
    first = decided.waiting[0]
    explainer = Explainer(decided.state, decided.started, decided.stops)
    return tuple(
        explainer.wait(job, held_back_by="" if policy.skip_ahead or job is first else first.id)
        for job in decided.waiting
    )
