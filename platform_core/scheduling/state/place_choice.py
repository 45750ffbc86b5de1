"""The place of one job in a round: the one with the shortest step that is free, or a better one to wait for."""

from __future__ import annotations

from dataclasses import replace

from platform_core.cluster.snapshot import PendingJob, PlaceStep
from platform_core.scheduling.placement.better_place import (
    LeftPlace,
    Offer,
    acceptable,
    better_than,
    left_for,
    left_to_run_ms,
    most_wait_ms,
)
from platform_core.scheduling.placement.search import Place
from platform_core.scheduling.policy import Policy
from platform_core.scheduling.state.round_state import RoundState

_MOST_AWAITED = 3  # better places whose earliest time is looked up


def find_place(state: RoundState, policy: Policy, job: PendingJob) -> Place | LeftPlace | None:
    """A free place, the place it leaves for a better one, which is then reserved, or None where none is free."""
    if not job.place_steps or not policy.place_wait_ms or _has_nodes(job):
        return state.find_place(job)
    if not state.may_start(job):
        return None
    steps = acceptable(job.place_steps)
    for step in steps:
        place = state.find_place(_at(job, step))
        if place is not None:
            return _left(state, policy, job, step, better_than(step, steps)) or place
    return state.find_place(job)


def as_left(state: RoundState, job: PendingJob) -> PendingJob:
    """The job as it waits: it remembers since when it has left free places for a better one."""
    left = state.left_places.get(job.id)
    return job if left is None else replace(job, offered_ms=left.since_ms)


def _left(
    state: RoundState, policy: Policy, job: PendingJob, step: PlaceStep, better: tuple[PlaceStep, ...]
) -> LeftPlace | None:
    """Looks no further ahead than the job may wait."""
    if not better or len(state.reservations.made) >= policy.reservations:
        return None
    now_ms, left_ms, limit_ms = state.snapshot.now_ms, left_to_run_ms(job), policy.place_wait_ms
    since_ms, fastest_us = job.offered_ms or now_ms, min(other.step_us for other in job.place_steps)
    found = {}
    for other in better[:_MOST_AWAITED]:
        until_ms = since_ms + most_wait_ms(step, other, fastest_us, left_ms, limit_ms)[0]
        earliest = state.reservations.earliest(_at(job, other), until_ms) if until_ms > now_ms else None
        if earliest is not None:
            found[Offer(other, earliest.start_ms)] = earliest
    left = left_for(
        Offer(step, now_ms), found, fastest_us=fastest_us, left_ms=left_ms, offered_ms=job.offered_ms,
        limit_ms=limit_ms,
    )  # fmt: skip
    if left is not None:
        state.reservations.add(job, found[left.later])
        state.leave_place(job.id, left)
    return left


def _at(job: PendingJob, step: PlaceStep) -> PendingJob:
    """The job as if it asked for such a place."""
    racks = job.constraints.max_racks
    if step.racks < step.nodes:
        racks = min(racks or step.racks, step.racks)
    return replace(job, on_nodes=step.nodes, constraints=job.constraints._replace(max_racks=racks))


def _has_nodes(job: PendingJob) -> bool:
    """Nodes are held for it, where it goes without a choice; or it is elastic and takes what there is."""
    held = job.resize_on or job.reserved_nodes or job.warm_nodes or job.kept_slots
    return bool(held) or job.min_gpus < job.num_gpus
