"""The next migration that would give a gang whole nodes, or why no migration is worth its cost.

It comes from a round with migration allowed, whatever the policy in force says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from platform_core.cluster.snapshot import PendingJob, Snapshot
from platform_core.scheduling.decisions import NodeReservation, Stop, StopKind
from platform_core.scheduling.engine import Decisions, decide
from platform_core.scheduling.estimates import remaining_ms
from platform_core.scheduling.policy import Policy
from platform_core.scheduling.preemption.eviction import LEAST_RUN_BEFORE_MIGRATION_MS
from platform_core.scheduling.wording import amount
from platform_core.units import format_duration_ms, plural


@dataclass(frozen=True, slots=True)
class NextMigration:
    job: PendingJob  # the job that gets the freed place
    stops: tuple[Stop, ...]
    reserved: tuple[NodeReservation, ...]  # where migrating jobs resume, if slots are free for them now
    cost_gpu_ms: int
    gain_gpu_ms: int  # GPU time that the job still needs
    pays: bool  # True if the gain is large enough beside the cost for the scheduler to do it


@dataclass(frozen=True, slots=True)
class NoMigration:
    sentence: str


def next_migration(snapshot: Snapshot, policy: Policy) -> NextMigration | NoMigration:
    decided = decide(snapshot, replace(policy, evicts=True, migrates=True))
    wanted = {job.id: job for job in snapshot.pending}
    moved = next((stop for stop in decided.stops if stop.kind is StopKind.MOVED), None)
    if moved is not None:
        stops = [stop for stop in decided.stops if stop.for_job == moved.for_job]
        stopped = {stop.job_id for stop in stops}
        reserved = tuple(
            reservation for reservation in decided.state.node_reservations if reservation.job_id in stopped
        )
        return _weighed(wanted[moved.for_job], stops, reserved, pays=True)
    rejected = decided.state.rejected_migration
    if rejected:
        return _weighed(wanted[rejected[0].for_job], rejected, (), pays=False)
    return NoMigration(_why_none(decided))


def _weighed(
    job: PendingJob, stops: Sequence[Stop], reserved: tuple[NodeReservation, ...], *, pays: bool
) -> NextMigration:
    cost = sum(stop.lost_gpu_ms for stop in stops)
    return NextMigration(job, tuple(stops), reserved, cost, remaining_ms(job) * job.num_gpus, pays)


def _why_none(decided: Decisions) -> str:
    if not decided.waiting:
        return "No job waits, so no job needs to migrate."
    state = decided.state
    free = {
        gpu_type: state.at_start.total(state.index.of_type(gpu_type) & state.cluster.ready)
        for gpu_type in state.index.gpu_types
    }
    for _, placement in decided.started:
        for seat in placement.members:
            free[state.index.nodes[state.index.position_of[seat.node]].gpu_type] -= len(seat.slots)
    in_pieces = [
        job
        for job in decided.waiting
        if job.num_gpus <= free.get(job.gpu_type, 0) and state.cluster.splits(state.cluster.demand(job))
    ]
    if not in_pieces:
        return "The waiting jobs need more free slots, or slots of another type."
    if all(not state.in_quota(job) for job in in_pieces):
        return f"{plural(len(in_pieces), 'job')} would fit the free slots but exceed the quota of its team."
    job = in_pieces[0]
    least = format_duration_ms(LEAST_RUN_BEFORE_MIGRATION_MS)
    return (
        f"{amount(job.num_gpus, job.gpu_type)} are free on several nodes, but no job there may migrate: only "
        f"preemptible jobs do that are smaller, not more urgent and have run for at least {least}."
    )
