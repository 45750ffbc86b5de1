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
from platform_core.scheduling.wording import amount
from webapp.base import lease
from webapp.base.identity import now_ms
from webapp.base.lease import Leadership
from webapp.jobs import hints, workload
from webapp.jobs import services as jobs
from webapp.jobs.services import Preemption
from webapp.nodes import services as clusters
from webapp.scheduling import measures, predictions, rounds, situation
from webapp.scheduling.models import Receipt

log = logging.getLogger(__name__)


def tick() -> bool:
    """Run one scheduling round. False when another replica is running one."""
    hints.tick_begins()  # first, so that whatever changes from here on asks for another round
    leadership = lease.acquire("scheduler", lease.candidate())
    if leadership is None:
        return False
    begun = time.monotonic()
    try:
        _round(leadership)
        measures.finished(now_ms(), round((time.monotonic() - begun) * 1000))
    except lease.LostLease as lost:
        log.info("round dropped: %s", lost)
    finally:
        lease.release(leadership)
    return True


def _round(leadership: Leadership) -> None:
    now, fence = now_ms(), partial(lease.fenced, leadership)
    for node_id in clusters.sweep(now, fence):
        jobs.node_lost(node_id, now, fence)
    jobs.end_on_silent_nodes(now, fence)
    for leave in clusters.turn_maintenance(now, fence):
        jobs.vacate(leave.node_id, StopKind.MAINTENANCE, leave.cause, now, by=leave.by, fence=fence)
    for fault in clusters.judge_devices(now, jobs.readings_of_nodes(now), fence):
        jobs.vacate(fault.node_id, StopKind.DEVICE_FAULT, fault.cause, now, slots=fault.slots, fence=fence)
    jobs.stop_overdue(now, fence)
    jobs.sweep_hangs(now, fence)
    snapshot = situation.load(now)
    decided_on = [job.id for job in snapshot.running if not job.stopping]
    jobs.keep_spares(situation.spares(snapshot), decided_on, now, fence)
    if not snapshot.pending and not any(is_elastic(job) for job in snapshot.running):
        return
    known, begun = rounds.Known(snapshot, situation.policy()), time.monotonic()
    decided = plan(known.snapshot, known.policy)
    took_ms = round((time.monotonic() - begun) * 1000)
    with fence():  # first: whatever is applied can be explained
        rounds.keep(known, decided, leadership.fencing, took_ms)
    apply(decided, leadership)
    measures.decided(decided)
    if decided.node_reservations:
        with fence():
            jobs.reserve_nodes(decided.node_reservations)
    stop(known.snapshot, decided.stops, leadership)


def stop(snapshot: Snapshot, stops: Sequence[Stop], leadership: Leadership) -> None:
    """Stop the jobs that release slots, one transaction each; the slots are used once they are free."""
    pending = {job.id: job for job in snapshot.pending}
    running = {job.id: job for job in snapshot.running}
    for stop in stops:
        victim = running[stop.job_id]
        wanted = pending.get(stop.for_job, victim)
        preemption = Preemption(stop.kind, _cause(stop, victim, wanted), wanted.id, wanted.team)
        with lease.fenced(leadership):
            jobs.preempt(stop.job_id, preemption, now_ms(), resize_to=stop.to_gpus)


def keep_receipt(sender: Any, job: Any, preemption: Preemption, at_ms: int, **_: Any) -> None:
    """Record what it costs that a job loses its slots, and who caused it."""
    lost = [lost_by_stopping_ms(victim, at_ms) * victim.held for victim in workload.running(job.id)]
    Receipt.objects.create(
        at_ms=at_ms, job_id=job.id, team=job.team_id, for_job=preemption.for_job, for_team=preemption.for_team,
        node=preemption.node, by=preemption.by, kind=preemption.kind, gpu_type=job.gpu_type, lost_gpu_ms=sum(lost),
    )  # fmt: skip


def _cause(stop: Stop, victim: RunningJob, wanted: PendingJob | RunningJob) -> str:
    if stop.kind is StopKind.GROWN:
        more = stop.to_gpus - victim.held
        idle = f"{amount(more, victim.gpu_type)} {'is' if more == 1 else 'are'} idle"
        return f"{idle}: it resumes with {stop.to_gpus}"
    if stop.kind is StopKind.RECLAIMED:
        lent = f"{amount(wanted.num_gpus, wanted.gpu_type)} of its guarantee"
        return f"team {wanted.team} reclaims {lent} for {wanted.id}; team {victim.team} had borrowed them"
    needed = amount(wanted.num_gpus, wanted.gpu_type)
    cause = f"{wanted.id} of {wanted.team}, priority {wanted.priority}, needs {needed}"
    return f"{cause}; it resumes with {stop.to_gpus}" if stop.to_gpus else cause


def apply(decided: Plan, leadership: Leadership) -> None:
    """Start the placed jobs in one transaction, then store the wait reasons of the others.

    A job may have been submitted after the round began, so jobs start at the time of that transaction.
    """
    if decided.placements:
        with lease.fenced(leadership):
            started = jobs.place([_placing(placement) for placement in decided.placements], now_ms())
            predictions.started(started, now_ms())
        stale = [placement.job_id for placement in decided.placements if placement.job_id not in started]
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
