"""The verbs of a job's life. Each is one short transaction around the core's `advance`."""

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from platform_core.errors import IllegalTransition, TrainmasterError
from platform_core.experiments import lineage as lineages
from platform_core.jobs import events as ev
from platform_core.jobs import spec as specification
from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import MemberPhase
from platform_core.jobs.kind import JobKind
from platform_core.jobs.spec import LEAST_URGENT, MOST_URGENT, JobSpec
from platform_core.jobs.states import TERMINAL, WAITING, JobState
from platform_core.jobs.transitions import submit as new_job
from platform_core.scheduling.decisions import NodeReservation
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.base.identity import new_id, now_ms
from webapp.base.lease import Fence
from webapp.base.rows import update_each
from webapp.events import services as events
from webapp.jobs import hints, origins, queries, recoveries, traces, transitions
from webapp.jobs.corruption import note_corruption
from webapp.jobs.failing_nodes import readings_of_nodes
from webapp.jobs.hangs import sweep as sweep_hangs
from webapp.jobs.logs import cool as cool_logs
from webapp.jobs.logs import delete as delete_logs
from webapp.jobs.lost_members import end_on_silent_nodes, node_lost
from webapp.jobs.mapping import job_columns
from webapp.jobs.models import Job, Member
from webapp.jobs.placement import Placing, place
from webapp.jobs.preemption import Preemption, node_leaves, preempt, vacate
from webapp.jobs.requirements import check_references
from webapp.jobs.signals import submitted
from webapp.jobs.spares import keep_spares, refresh_spares
from webapp.nodes import services as clusters
from webapp.quotas import services as quotas
from webapp.sockets import services as sockets

log = logging.getLogger(__name__)

__all__ = [
    "Placing",
    "Preemption",
    "Unstartable",
    "WaitReason",
    "accept",
    "cancel",
    "change_priority",
    "check_references",
    "cool_logs",
    "declare_unstartable",
    "delete_logs",
    "end_on_silent_nodes",
    "explain_waits",
    "keep_spares",
    "mark_drained",
    "node_leaves",
    "node_lost",
    "note_corruption",
    "observe",
    "place",
    "preempt",
    "progress",
    "readings_of_nodes",
    "reconcile_node",
    "refresh_spares",
    "reserve_nodes",
    "stop_overdue",
    "submit",
    "sweep_hangs",
    "vacate",
]  # fmt: skip


_KEY = re.compile(r"[\x20-\x7e]{1,200}")


def submit(
    actor: Actor,
    mapping: Mapping[str, Any],
    **details: Any,
) -> tuple[Job, bool]:
    """Accept the job that a job file, a REST body or a script describes; see `accept`. Raises SpecError as well."""
    return accept(actor, specification.parse(mapping), **details)


def accept(
    actor: Actor,
    spec: JobSpec,
    *,
    idempotency_key: str | None = None,
    lineage: Mapping[str, Any] | None = None,
    cloned_from: str = "",
    pinned: bool = False,
) -> tuple[Job, bool]:
    """Accept a job, or refuse it with every reason at once: the job, and whether it is new.

    The same idempotency key and content give the same job again.

    Blocks while the code of a git repository is fetched, unless it is `pinned`: what coordinators submit was resolved
    before, and they wait for no server of others. Raises SpecError for what the team or the repository does not
    have, and TrainmasterError of quota_exceeded, idempotency_conflict and of what check_permissions raises.
    """
    if idempotency_key is not None and not _KEY.fullmatch(idempotency_key):
        why = "it must be 1 to 200 printable ASCII characters"
        raise TrainmasterError("request_invalid", what="Idempotency-Key", why=why)
    check_permissions(actor, spec)
    if idempotency_key and (earlier := _same_submission(actor, spec, idempotency_key)):
        return earlier, False
    origin = lineages.submitted(lineage or {})
    asked = spec
    spec, origin = (asked, origin) if pinned else origins.resolve(actor, asked, origin)
    if spec.git.url and not spec.code:
        sentence = "its code was not fetched when it was asked for; ask for it anew"
        raise specification.SpecError((specification.Problem("git.url", sentence),))
    try:
        with transaction.atomic():
            return _accept(actor, spec, idempotency_key, origin, cloned_from), True
    except IntegrityError:  # the same key was accepted between our look and our insert
        if idempotency_key and (earlier := _same_submission(actor, asked, idempotency_key)):
            return earlier, False
        raise


def check_permissions(actor: Actor, spec: JobSpec) -> None:
    """Whether the actor may submit this. Raises TrainmasterError of not_allowed, not_found, priority_too_urgent."""
    permissions.require(actor, "job.submit", spec.team)
    if spec.dataset:
        permissions.require(actor, "dataset.view", spec.team)
    permissions.require_priority(actor, spec.team, spec.priority)


def _same_submission(actor: Actor, spec: JobSpec, key: str) -> Job | None:
    job = Job.objects.filter(user__username=actor.username, team=spec.team, idempotency_key=key).first()
    if job is not None and not origins.same_request(job.spec, job.lineage, specification.as_mapping(spec)):
        raise TrainmasterError("idempotency_conflict", key=key)
    return job


def _accept(actor: Actor, spec: JobSpec, key: str | None, lineage: dict[str, Any], cloned_from: str) -> Job:
    now = now_ms()
    check_references(spec)
    quotas.admit(
        spec.team, spec.gpu_type, spec.num_gpus, lambda: queries.queued_gpus(spec.team, spec.gpu_type)
    )
    event = ev.Submitted(at_ms=now, actor=f"user:{actor.username}")
    value = new_job(new_id("job"), spec, event).job
    job = Job.objects.create(
        id=value.id,
        team_id=spec.team,
        user=accounts.user(actor.username),
        name=spec.name,
        project=spec.project,
        spec=specification.as_mapping(spec),
        lineage=lineage,
        traceparent=traces.submitted(value.id, now),
        idempotency_key=key,
        cloned_from=cloned_from,
        submitted_ms=value.submitted_ms,
        gpu_type=spec.gpu_type,
        num_gpus=spec.num_gpus,
        priority=spec.priority,
        **job_columns(value),
    )
    transitions.keep([(job, event, value.state)])
    submitted.send(Job, job=job, spec=spec)
    hints.tick()
    return job


def cancel(actor: Actor, job_id: str, cause: str = "", *, may_save: bool = False) -> None:
    """`may_save`: its script gets as long to save a checkpoint as a preempted one."""
    job = Job.objects.filter(id=job_id).select_related("user").first()
    if job is None:
        raise TrainmasterError("not_found", what=f"job {job_id}")
    permissions.require(actor, "job.cancel", job.team_id, owner=job.user.username)
    event = ev.CancelRequested(at_ms=now_ms(), actor=actor.name, cause=cause, may_save=may_save)
    transitions.step(job_id, event)


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
        if priority < job.priority:
            permissions.require_priority(actor, job.team_id, priority)
        if JobState(job.state) in TERMINAL:
            why = f"the job has ended: {job.state}"
            raise TrainmasterError("request_invalid", what=f"a new priority for {job_id}", why=why)
        before, job.priority = job.priority, priority
        if before != priority:
            job.save(update_fields=["priority"])
            events.record(
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


def lock(job_id: str) -> None:
    """Until the transaction ends nobody else changes this job. Taken before the lock of any manifest."""
    list(Job.objects.select_for_update(of=("self",), no_key=True).filter(id=job_id))


def observe(job_id: str, event: ev.JobEvent) -> None:
    """Applies what a node or a script reports about an attempt; a repeated or late report changes nothing."""
    observe_all([(job_id, event)])


def observe_all(reports: Sequence[tuple[str, ev.JobEvent]]) -> None:
    """Applies the reports of many nodes, in this order, in one transaction."""
    if not reports:
        return
    with transaction.atomic():
        batch = transitions.Batch(job_id for job_id, _ in reports)
        for job_id, event in reports:
            if job_id not in batch.jobs:
                continue
            try:
                batch.advance(job_id, event)
            except IllegalTransition as error:
                log.info("%s of %s came too late: %s", type(event).__name__, job_id, error.sentence)
        batch.write()


def mark_drained(ended: Collection[tuple[str, str]]) -> list[str]:
    """Marks these (attempt, node): their agents have sent everything. Returns the nodes for which that is new."""
    rows = Member.objects.filter(attempt__in={attempt_id for attempt_id, _ in ended}, drained=False)
    members = {
        key: node
        for key, attempt, node in rows.values_list("id", "attempt_id", "node_id")
        if (attempt, node) in ended
    }
    Member.objects.filter(id__in=members).update(drained=True)
    return list(members.values())


@dataclass(frozen=True, slots=True)
class Unstartable:
    """One node's part of an attempt for which the platform cannot make the order, and why."""

    node_id: str
    job_id: str
    attempt_id: str
    attempt: int
    why: str


def declare_unstartable(failures: Sequence[Unstartable]) -> None:
    """Ends these members before they begin, with the reason, and drops them from the wanted state of their nodes."""
    if not failures:
        return
    with transaction.atomic():
        observe_all([(failure.job_id, _never_started(failure)) for failure in failures])
        clusters.touch(mark_drained({(failure.attempt_id, failure.node_id) for failure in failures}))


def _never_started(failure: Unstartable) -> ev.MemberObserved:
    return ev.MemberObserved(
        at_ms=now_ms(), actor="system", attempt=failure.attempt, node=failure.node_id,
        phase=MemberPhase.EXITED, end=EndReason.REFUSED, reason=f"it was refused: {failure.why}",
    )  # fmt: skip


def reconcile_node(node_id: str, has: set[str], at_ms: int) -> None:
    """Ends the gang members that ran on the node and are not in its complete report."""
    members = Member.objects.filter(node_id=node_id, phase__in=["preparing", "running"])
    missing = list(members.exclude(attempt_id__in=has).select_related("attempt").order_by("attempt_id"))
    observe_all([(member.attempt.job_id, _gone(member, at_ms)) for member in missing])
    mark_drained({(member.attempt_id, node_id) for member in missing})


def _gone(member: Member, at_ms: int) -> ev.MemberObserved:
    return ev.MemberObserved(
        at_ms=at_ms,
        actor=f"node:{member.node_id}",
        attempt=member.attempt.number,
        node=member.node_id,
        phase=MemberPhase.EXITED,
        exit_code=-1,
        reason="the node came back without it (its data folder is new?)",
        end=EndReason.LAUNCHER,
    )


def stop_overdue(at_ms: int, fence: Fence = transaction.atomic) -> None:
    """End the jobs that have run for longer than they asked for."""
    states = [JobState.RUNNING, JobState.CHECKPOINTING, JobState.INITIALIZING]
    active = Job.objects.filter(state__in=states, stop="none")
    columns = ("id", "started_ms", "spec__max_runtime_hours", "spec__kind")
    for job_id, started_ms, hours, kind in active.values_list(*columns):
        overdue = started_ms is not None and at_ms - started_ms > float(hours) * 3_600_000
        if overdue and kind != JobKind.SERVICE:
            with fence():
                transitions.step(job_id, ev.TimeLimitReached(at_ms=at_ms, actor="system"))


def progress(job_id: str, attempt: int, values: Mapping[str, Any]) -> None:
    """Newest step, loss, learning rate and so on of a running attempt, for lists and the head of the page."""
    known = {key: value for key, value in values.items() if value is not None}
    with transaction.atomic():
        Job.objects.filter(id=job_id, attempt=attempt).update(**known)
        if "step" in known:
            first = Job.objects.filter(id=job_id, attempt=attempt, first_step=None)
            if first.update(first_step=known["step"], first_step_ms=known["progress_ms"]):
                recoveries.milestone(job_id, attempt, "first_step", known["progress_ms"])
        sockets.publish(f"job:{job_id}", known)


def reserve_nodes(reservations: Sequence[NodeReservation]) -> None:
    """Reserve nodes for jobs until they start: others migrate away for them, or they migrate there."""
    by_job = {reservation.job_id: reservation for reservation in reservations}
    living = (
        Job.objects.select_for_update(no_key=True).filter(id__in=by_job).exclude(state__in=list(TERMINAL))
    )
    update_each(
        Job,
        {
            job_id: {"room_on": list(by_job[job_id].nodes), "room_until_ms": by_job[job_id].until_ms}
            for job_id in living.order_by("id").values_list("id", flat=True)
        },
    )


@dataclass(frozen=True, slots=True)
class WaitReason:
    """What the scheduler says of a job it did not start."""

    job_id: str
    code: str
    sentence: str
    numbers: dict[str, Any]
    position: int
    place: tuple[str, ...] = ()


def explain_waits(reasons: Sequence[WaitReason]) -> None:
    """Keeps why each job is pending; only changes are written and published."""
    waiting = Job.objects.select_for_update(no_key=True).filter(state__in=list(WAITING)).order_by("id")
    fields = ("id", "team_id", "wait_sentence", "queue_position", "wait_place")
    known = {job_id: columns for job_id, *columns in waiting.values_list(*fields)}
    changed = {
        reason.job_id: {
            "wait_code": reason.code, "wait_sentence": reason.sentence, "wait_numbers": reason.numbers,
            "queue_position": reason.position, "wait_place": list(reason.place),
        }
        for reason in reasons
        if reason.job_id in known
        and known[reason.job_id][1:] != [reason.sentence, reason.position, list(reason.place)]
    }  # fmt: skip
    update_each(Job, changed)
    for job_id in changed:
        sockets.publish(f"job:{job_id}")
    if any(known[job_id][-1] != row["wait_place"] for job_id, row in changed.items()):
        sockets.publish("cluster")  # the map marks the nodes that are kept
    for team in {known[job_id][0] for job_id in changed}:
        sockets.publish(f"jobs:{team}")
