"""One round: load a snapshot, let the core decide, apply by guarded updates under the lease's fencing number."""

import logging
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.scheduling.decisions import Placement, Plan, Stop, StopKind, Wait
from platform_core.scheduling.engine import plan
from platform_core.scheduling.estimates import lost_by_stopping_ms
from platform_core.scheduling.preemption.elastic import is_elastic
from platform_core.units import plural
from webapp.base import lease
from webapp.base.identity import now_ms
from webapp.base.lease import Leadership
from webapp.jobs import hints, workload
from webapp.jobs import services as jobs
from webapp.jobs.services import Preemption
from webapp.nodes import services as clusters
from webapp.scheduling import predictions, rounds, situation
from webapp.scheduling.models import Receipt

log = logging.getLogger(__name__)


def tick() -> bool:
    """One scheduling round. False when another replica is in the middle of one."""
    hints.tick_begins()  # first, so that whatever changes from here on asks for another round
    leadership = lease.acquire("scheduler", lease.candidate())
    if leadership is None:
        return False
    try:
        _round(leadership)
    except lease.LostLease as lost:
        log.info("round dropped: %s", lost)
    finally:
        lease.release(leadership)
    return True


def _round(leadership: Leadership) -> None:
    now, fence = now_ms(), partial(lease.fenced, leadership)
    for node_id in clusters.sweep(now, fence):
        jobs.node_lost(node_id, now, fence)
    for leave in clusters.turn_maintenance(now, fence):
        jobs.vacate(leave.node_id, StopKind.MAINTENANCE, leave.cause, now, by=leave.by, fence=fence)
    jobs.stop_overdue(now, fence)
    snapshot = situation.load(now)
    if not snapshot.pending and not any(is_elastic(job) for job in snapshot.running):
        return
    known, begun = rounds.Known(snapshot, situation.policy()), time.monotonic()
    decided = plan(known.snapshot, known.policy)
    took_ms = round((time.monotonic() - begun) * 1000)
    with fence():  # first: whatever is applied can be explained
        rounds.keep(known, decided, leadership.fencing, took_ms)
    apply(decided, leadership)
    if decided.node_reservations:
        with fence():
            jobs.reserve_nodes(decided.node_reservations)
    stop(known.snapshot, decided.stops, leadership)


def stop(snapshot: Snapshot, stops: Sequence[Stop], leadership: Leadership) -> None:
    """Take the slots of those that make room, a transaction each; the room is used once it is there."""
    pending = {job.id: job for job in snapshot.pending}
    running = {job.id: job for job in snapshot.running}
    for each in stops:
        victim = running[each.job_id]
        wanted = pending.get(each.for_job, victim)
        preemption = Preemption(each.kind, _cause(each, victim, wanted), wanted.id, wanted.team)
        with lease.fenced(leadership):
            jobs.preempt(each.job_id, preemption, now_ms(), resize_to=each.to_gpus)


def keep_receipt(sender: Any, job: Any, preemption: Preemption, at_ms: int, **_: Any) -> None:
    """A job loses its slots, whatever the reason: what that costs, and who caused it."""
    lost = [lost_by_stopping_ms(victim, at_ms) * victim.held for victim in workload.running(job.id)]
    Receipt.objects.create(
        at_ms=at_ms, job_id=job.id, team=job.team_id, for_job=preemption.for_job, for_team=preemption.for_team,
        node=preemption.node, by=preemption.by, kind=preemption.kind, gpu_type=job.gpu_type, lost_gpu_ms=sum(lost),
    )  # fmt: skip


def _cause(stop: Stop, victim: RunningJob, wanted: PendingJob | RunningJob) -> str:
    if stop.kind is StopKind.GROWN:
        more = stop.to_gpus - victim.held
        return f"{plural(more, 'slot')} {'is' if more == 1 else 'are'} idle: it goes on with {stop.to_gpus}"
    if stop.kind is StopKind.RECLAIMED:
        slots = f"{plural(wanted.num_gpus, 'slot')} of its guarantee"
        return f"team {wanted.team} takes back {slots} for {wanted.id}; team {victim.team} had borrowed"
    cause = (
        f"{wanted.id} of {wanted.team}, priority {wanted.priority}, needs {plural(wanted.num_gpus, 'slot')}"
    )
    return f"{cause}; it goes on with {stop.to_gpus}" if stop.to_gpus else cause


def apply(decided: Plan, leadership: Leadership) -> None:
    """Start what was placed, all in one transaction; then tell the others why they wait.

    A job may have been submitted after the round began, so it starts at the time of that transaction.
    """
    if decided.placements:
        with lease.fenced(leadership):
            started = jobs.place([_placing(each) for each in decided.placements], now_ms())
            predictions.started(started, now_ms())
        stale = [each.job_id for each in decided.placements if each.job_id not in started]
        if stale:
            log.info("placements were stale, the next round plans again: %s", ", ".join(stale))
    waits = [_wait(wait, position) for position, wait in enumerate(decided.waits, start=1)]
    with lease.fenced(leadership):
        jobs.explain_waits(waits)


def _placing(placement: Placement) -> jobs.Placing:
    seats = tuple((seat.node, seat.rank, seat.slots) for seat in placement.members)
    return jobs.Placing(placement.job_id, seats, placement.reason)


def _wait(wait: Wait, position: int) -> jobs.WaitReason:
    return jobs.WaitReason(wait.job_id, wait.code, wait.sentence, dict(wait.numbers), position, wait.place)
