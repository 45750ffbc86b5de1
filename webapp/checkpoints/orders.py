"""Orders to the running script of a job: save now, and how often to save where its spec leaves that open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import median_low
from typing import TYPE_CHECKING

from django.db import transaction

from platform_core.checkpointing.live import LiveInterval, Measured, live_interval, worth_setting
from platform_core.errors import TrainmasterError
from platform_core.jobs.states import ACTIVE, JobState
from platform_core.units import DAY_MS, SECOND_MS, format_duration_ms
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.base import rounds
from webapp.base.identity import now_ms
from webapp.checkpoints.models import Checkpoint, SaveOrders
from webapp.events import queries as event_queries
from webapp.events import services as events
from webapp.jobs import measures
from webapp.jobs import queries as jobs
from webapp.nodes import queries as clusters
from webapp.nodes import services as nodes
from webapp.sockets import services as sockets

if TYPE_CHECKING:
    from webapp.jobs.models import Job

WINDOW_MS = 30 * DAY_MS  # in which lost nodes and stops are counted
SAVES, STORED = (
    20,
    3,
)  # how many of the newest saves tell the blocking time, and the time until one is in the store
LATELY = 200  # how many of the newest ends are looked at
FEWEST_SAVES = 2  # the first one plans and warms up
CLOCKS_MS = 2 * SECOND_MS  # by which the clock of a node may be behind
_RUNNING = (JobState.RUNNING, JobState.CHECKPOINTING)


def save_now(actor: Actor, job_id: str) -> SaveOrders:
    """Orders a checkpoint of a running job. Its script saves when it asks `checkpoint_due` the next time.

    Raises not_found, not_allowed, and request_invalid where it does not run.
    """
    job = jobs.find(job_id)
    if job is None:
        raise TrainmasterError("not_found", what=f"job {job_id}")
    permissions.require(actor, "job.save", job.team_id, owner=job.user.username, what=f"job {job_id}")
    if not accepts(job):
        state = "is being stopped" if job.stop != "none" else f"is {job.state}"
        why = f"the job {state}; only a running job can save"
        raise TrainmasterError("request_invalid", what="a checkpoint now", why=why)
    with transaction.atomic():
        row = _locked(job)
        row.save_order += 1
        row.asked_by, row.asked_ms, row.answer = actor.username, now_ms(), ""
        row.save()
        _tell(job)
        _record("SaveOrdered", job, actor.name, f"order {row.save_order}", {"order": row.save_order})
    return row


def accepts(job: Job) -> bool:
    """Whether its script can be told to save."""
    return job.state in _RUNNING and job.stop == "none"


def answered(checkpoint: Checkpoint) -> None:
    """Names a new checkpoint as the answer to an order that came before it began. In the caller's transaction."""
    began_ms = checkpoint.began_ms or checkpoint.saved_ms
    row = SaveOrders.objects.select_for_update().filter(job=checkpoint.job_id, answer="").first()
    if row is None or row.asked_ms is None or began_ms + CLOCKS_MS < row.asked_ms:
        return
    row.answer = checkpoint.id
    row.save(update_fields=["answer"])
    took = format_duration_ms(max(0, now_ms() - row.asked_ms))
    cause = f"order {row.save_order}: checkpoint {checkpoint.id} at step {checkpoint.step}, {took} after it"
    data = {"order": row.save_order, "checkpoint": checkpoint.id, "step": checkpoint.step}
    _record("SaveOrderAnswered", checkpoint.job, "system", cause, data)


def set_intervals() -> int:
    """Gives each running job whose spec names no interval the one that its saves and nodes suggest. Returns how many
    were changed."""
    changed: list[Job] = []

    def adjust(job: Job) -> None:
        measured = measure(job) if accepts(job) else None
        if measured is not None and _set_interval(job, measured, live_interval(measured)):
            changed.append(job)

    rounds.each("interval of job", list(jobs.running_without_interval()), adjust)
    return len(changed)


def measure(job: Job) -> Measured | None:
    """None before there are enough saves that tell how long they took."""
    timed = Checkpoint.objects.filter(job=job).exclude(blocking_ms=None)
    saves = list(timed.order_by("-saved_ms")[:SAVES])
    if len(saves) < FEWEST_SAVES:
        return None
    starts, now = jobs.starts(job.id), now_ms()
    recovery_ms = measures.mean_recovery_ms(job)
    if recovery_ms is None:
        recovery_ms = median_low(starts.took_ms) if starts.took_ms else 0
    stored = [max(0, row.saved_ms - (row.began_ms or row.saved_ms)) + (row.upload_ms or 0) for row in saves]
    stops = event_queries.moments("PreemptRequested", f"job:{job.id}", 1_000)
    began_ms = max(now - WINDOW_MS, job.submitted_ms)
    return Measured(
        blocking_ms=median_low([row.blocking_ms or 0 for row in saves]),
        stored_ms=median_low(stored[:STORED]),
        restart_ms=recovery_ms,
        nodes=max(1, starts.nodes),
        losses=clusters.losses(job.gpu_type, now - WINDOW_MS, now),
        stops=sum(at_ms >= began_ms for at_ms, _ in stops),
        ran_ms=max(0, now - began_ms),
        ended_ago_ms=_ended_ago_ms(job, [at_ms for at_ms, _ in stops], now),
    )


def _ended_ago_ms(job: Job, stops: Sequence[int], now: int) -> tuple[int, ...]:
    """Of attempts that failed, one moment each, and of those that were preempted, the newest first."""
    failed = {failure["attempt"]: failure["at_ms"] for failure in job.failures}
    return tuple(sorted(max(0, now - at_ms) for at_ms in (*failed.values(), *stops)))[:LATELY]


def _set_interval(job: Job, measured: Measured, live: LiveInterval) -> bool:
    with transaction.atomic():
        row = _locked(job)
        before_ms = row.interval_ms
        if not worth_setting(before_ms, live.interval_ms):
            return False
        row.interval_ms = live.interval_ms
        row.interval_basis = {"measured": asdict(measured), "live": asdict(live)}
        row.save(update_fields=["interval_ms", "interval_basis"])
        _tell(job)
        slow = live.bound == "store" and 0 < before_ms < live.interval_ms
        kind = "CheckpointIntervalLengthened" if slow else "CheckpointIntervalSet"
        was = f"; it was {format_duration_ms(before_ms)}" if before_ms else ""
        cause = f"{live.sentence.rstrip('.')}{was}"
        _record(kind, job, "system", cause, {"interval_ms": live.interval_ms, "before_ms": before_ms})
    return True


def _locked(job: Job) -> SaveOrders:
    SaveOrders.objects.get_or_create(job=job)
    return SaveOrders.objects.select_for_update().get(job=job)


def _tell(job: Job) -> None:
    """Lets the nodes of the job have their wanted states again."""
    assert job.state in ACTIVE, "it has an attempt"
    nodes.touch(jobs.nodes_of(job.id))


def _record(kind: str, job: Job, actor: str, cause: str, data: dict[str, object]) -> None:
    events.record(
        kind, f"job:{job.id}", actor=actor, team=job.team_id, cause=cause,
        data={"name": job.name, "state": job.state, **data}, notify=(f"jobs:{job.team_id}",),
    )  # fmt: skip
    sockets.publish(f"job:{job.id}")
