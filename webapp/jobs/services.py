"""The verbs of a job's life. Each is one short transaction around the core's `advance`."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Sum

from platform_core.errors import IllegalTransition, TrainmasterError
from platform_core.jobs import events
from platform_core.jobs import spec as specification
from platform_core.jobs.job import MemberPhase, Stop
from platform_core.jobs.spec import LEAST_URGENT, MOST_URGENT, JobSpec
from platform_core.jobs.states import ACTIVE, TERMINAL, WAITING, JobState
from platform_core.json_values import storable
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.artifacts import queries as artifacts
from webapp.jobs import hints, stepping
from webapp.jobs.models import Job, Member
from webapp.jobs.placing import place
from webapp.jobs.signals import submitted
from webapp.live import services as live
from webapp.live.identity import new_id, now_ms
from webapp.quotas import services as quotas

log = logging.getLogger(__name__)

__all__ = [
    "WaitReason",
    "cancel",
    "change_priority",
    "explain_waits",
    "mark_drained",
    "node_leaves",
    "node_lost",
    "observe",
    "place",
    "preempt",
    "progress",
    "reconcile_node",
    "stop_overdue",
    "submit",
    "vacate",
]


def submit(
    actor: Actor,
    mapping: Mapping[str, Any],
    *,
    idempotency_key: str | None = None,
    lineage: Mapping[str, Any] | None = None,
    cloned_from: str = "",
) -> tuple[Job, bool]:
    """Accept a job, or refuse it with every reason at once: the job, and whether it is new.

    The same idempotency key and content give the same job again.

    Raises SpecError, and TrainmasterError of quota_exceeded, idempotency_conflict, not_allowed, not_found.
    """
    spec = specification.parse(mapping)
    permissions.require(actor, "job.submit", spec.team)
    if idempotency_key and (earlier := _same_submission(actor, spec, idempotency_key)):
        return earlier, False
    try:
        with transaction.atomic():
            return _accept(actor, spec, idempotency_key, storable(dict(lineage or {})), cloned_from), True
    except IntegrityError:  # the same key was accepted between our look and our insert
        if idempotency_key and (earlier := _same_submission(actor, spec, idempotency_key)):
            return earlier, False
        raise


def _same_submission(actor: Actor, spec: JobSpec, key: str) -> Job | None:
    job = Job.objects.filter(user__username=actor.username, team=spec.team, idempotency_key=key).first()
    if job is not None and job.spec != specification.as_mapping(spec):
        raise TrainmasterError("idempotency_conflict", key=key)
    return job


def _accept(actor: Actor, spec: JobSpec, key: str | None, lineage: dict[str, Any], cloned_from: str) -> Job:
    check_references(spec)
    waiting = Job.objects.filter(
        team=spec.team, gpu_type=spec.gpu_type, state__in=[JobState.PENDING, JobState.PREEMPTED]
    ).aggregate(gpus=Sum("num_gpus"))["gpus"]
    quotas.admit(spec.team, spec.gpu_type, spec.num_gpus, waiting or 0)
    now = now_ms()
    job = Job.objects.create(
        id=new_id("job"),
        team_id=spec.team,
        user_id=accounts.user_key(actor.username),
        name=spec.name,
        project=spec.project,
        spec=specification.as_mapping(spec),
        lineage=lineage,
        idempotency_key=key,
        cloned_from=cloned_from,
        state=JobState.PENDING,
        submitted_ms=now,
        waiting_since_ms=now,
        gpu_type=spec.gpu_type,
        num_gpus=spec.num_gpus,
        priority=spec.priority,
    )
    event = events.Submitted(at_ms=now, actor=f"user:{actor.username}")
    stepping.keep(job, event)
    submitted.send(Job, job=job, spec=spec)
    hints.tick()
    return job


def check_references(spec: JobSpec) -> None:
    """What a specification names must exist in its team. Raises SpecError with a sentence for each that does not."""
    problems = []
    if spec.code and not artifacts.manifest_exists(spec.code, spec.team, "code"):
        problems.append(
            specification.Problem("code", f"The team has no code bundle {spec.code}; upload it first.")
        )
    if spec.dataset and not artifacts.snapshot_exists(spec.dataset, spec.team):
        problems.append(specification.Problem("dataset", f"The team has no dataset snapshot {spec.dataset}."))
    problems += [
        specification.Problem(
            "secrets", f"The team has no secret {name}; a lead can add it on the team's page."
        )
        for name in spec.secrets
        if name not in accounts.secret_names(spec.team)
    ]
    if problems:
        raise specification.SpecError(tuple(problems))


def cancel(actor: Actor, job_id: str, cause: str = "") -> None:
    job = Job.objects.filter(id=job_id).select_related("user").first()
    if job is None:
        raise TrainmasterError("not_found", what=f"job {job_id}")
    permissions.require(actor, "job.cancel", job.team_id, owner=job.user.username)
    event = events.CancelRequested(at_ms=now_ms(), actor=f"user:{actor.username}", cause=cause)
    stepping.step(job_id, event)


def change_priority(actor: Actor, job_id: str, priority: int) -> Job:
    """Of a job that has not ended: 0 is the most urgent, 100 the least. Counts from the next round on."""
    if not MOST_URGENT <= priority <= LEAST_URGENT:
        why = f"it goes from {MOST_URGENT}, the most urgent, to {LEAST_URGENT}"
        raise TrainmasterError("request_invalid", what=f"priority {priority}", why=why)
    with transaction.atomic():
        job = Job.objects.select_for_update(of=("self",)).filter(id=job_id).first()
        if job is None:
            raise TrainmasterError("not_found", what=f"job {job_id}")
        permissions.require(actor, "job.prioritise", job.team_id)
        if JobState(job.state) in TERMINAL:
            why = f"the job has ended: {job.state}"
            raise TrainmasterError("request_invalid", what=f"a new priority for {job_id}", why=why)
        before, job.priority = job.priority, priority
        if before != priority:
            job.save(update_fields=["priority"])
            live.record(
                "PriorityChanged",
                f"job:{job.id}",
                actor=actor.name,
                team=job.team_id,
                cause=f"from {before} to {priority}",
                data={"name": job.name, "state": job.state},
                notify=(f"jobs:{job.team_id}", "cluster"),
            )
            hints.tick()
    return job


def observe(job_id: str, event: events.JobEvent) -> None:
    """A node or a script told something about an attempt; a repeated or late word changes nothing."""
    try:
        stepping.step(job_id, event)
    except IllegalTransition as error:
        log.info("%s of %s came too late: %s", type(event).__name__, job_id, error.sentence)


def mark_drained(attempt_id: str, node_id: str) -> bool:
    """The agent has sent everything it had of this member. True the first time."""
    return bool(Member.objects.filter(attempt=attempt_id, node=node_id, drained=False).update(drained=True))


def reconcile_node(node_id: str, has: set[str], at_ms: int) -> None:
    """A node said all it has. A gang member that was running there and is no longer known there is gone for good."""
    members = Member.objects.filter(node_id=node_id, phase__in=["preparing", "running"])
    for member in members.exclude(attempt_id__in=has).select_related("attempt"):
        gone = events.MemberObserved(
            at_ms=at_ms,
            actor=f"node:{node_id}",
            attempt=member.attempt.number,
            node=node_id,
            phase=MemberPhase.EXITED,
            exit_code=-1,
            reason="infrastructure: the node came back without it (its data folder is new?)",
        )
        observe(member.attempt.job_id, gone)
        mark_drained(member.attempt_id, node_id)


def node_lost(node_id: str, at_ms: int) -> None:
    """Every gang with a member on the node loses that member."""
    for job_id in stepping.jobs_on(node_id):
        stepping.step(job_id, events.NodeLost(at_ms=at_ms, actor="system", node=node_id))


def stop_overdue(at_ms: int) -> None:
    """End the jobs that have run for longer than they asked for."""
    active = Job.objects.filter(
        state__in=[JobState.RUNNING, JobState.CHECKPOINTING, JobState.INITIALIZING], stop="none"
    ).values_list("id", "started_ms", "spec__max_runtime_hours")
    for job_id, started_ms, hours in active:
        if started_ms is not None and at_ms - started_ms > float(hours) * 3_600_000:
            stepping.step(job_id, events.TimeLimitReached(at_ms=at_ms, actor="system"))


def progress(job_id: str, attempt: int, values: Mapping[str, Any]) -> None:
    """Newest step, loss, learning rate and so on of a running attempt, for lists and the head of the page."""
    known = {key: value for key, value in values.items() if value is not None}
    with transaction.atomic():
        Job.objects.filter(id=job_id, attempt=attempt).update(**known)
        if "step" in known:
            Job.objects.filter(id=job_id, attempt=attempt, first_step=None).update(
                first_step=known["step"], first_step_ms=known["progress_ms"]
            )
        live.publish(f"job:{job_id}", known)


@dataclass(frozen=True, slots=True)
class WaitReason:
    """What the scheduler says of a job it did not start."""

    job_id: str
    code: str
    sentence: str
    numbers: dict[str, Any]
    position: int


def explain_waits(reasons: Sequence[WaitReason]) -> None:
    """Keep why each job waits; only what changed is written and told."""
    rows = {
        row.id: row for row in Job.objects.filter(id__in=[r.job_id for r in reasons], state__in=list(WAITING))
    }
    changed = []
    for reason in reasons:
        row = rows.get(reason.job_id)
        if row is None or (row.wait_sentence, row.queue_position) == (reason.sentence, reason.position):
            continue
        row.wait_code, row.wait_sentence = reason.code, reason.sentence
        row.wait_numbers, row.queue_position = reason.numbers, reason.position
        changed.append(row)
    fields = ["wait_code", "wait_sentence", "wait_numbers", "queue_position"]
    Job.objects.bulk_update(changed, fields, batch_size=500)
    for row in changed:
        live.publish(f"job:{row.id}")
    for team in {row.team_id for row in changed}:
        live.publish(f"jobs:{team}")


def max_restarts() -> int:
    return int(settings.MAX_RESTARTS)


def preempt(job_id: str, cause: str, at_ms: int, *, resize_to: int = 0) -> bool:
    """Take the slots of a job back: it may save first, and waits in the queue again. False when it has none.

    With `resize_to` it goes on with so many slots as soon as it has stopped.
    """
    row = Job.objects.filter(id=job_id, state__in=list(ACTIVE), stop=Stop.NONE).only("attempt").first()
    if row is None:
        return False
    event = events.PreemptRequested(at_ms=at_ms, actor="scheduler", cause=cause, attempt=row.attempt)
    with transaction.atomic():
        Job.objects.filter(id=job_id).update(resize_to=resize_to)
        observe(job_id, event)
    return True


def vacate(node_id: str, cause: str, at_ms: int, *, everybody: bool = False) -> int:
    """Jobs on this node save and start again elsewhere: the preemptible ones, or everybody. How many were asked."""
    asked = 0
    for job in Job.objects.filter(id__in=stepping.jobs_on(node_id), stop=Stop.NONE).order_by("id"):
        if everybody or job.spec["preemptible"]:
            asked += preempt(job.id, cause, at_ms)
    return asked


def node_leaves(sender: Any, node_id: str, cause: str, at_ms: int, **_: Any) -> None:
    """The machine is taken away: whoever runs there saves what it can."""
    vacate(node_id, cause, at_ms, everybody=True)
