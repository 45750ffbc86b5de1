"""One step of a job: load it, let the core advance it, write what changed, keep the event, carry out the effects."""

from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.db import transaction

from platform_core.jobs import effects, events, transitions
from platform_core.jobs.job import Job as JobValue
from platform_core.jobs.states import TERMINAL, WAITING, JobState
from webapp.clusters import queries as cluster_queries
from webapp.clusters import services as clusters
from webapp.jobs import hints
from webapp.jobs.mapping import job_columns, job_value
from webapp.jobs.models import Attempt, Job, Member
from webapp.live import services as live
from webapp.quotas import services as quotas


def job_of(attempt_id: str) -> str | None:
    return Attempt.objects.filter(id=attempt_id).values_list("job_id", flat=True).first()


def jobs_on(node_id: str) -> list[str]:
    """Jobs with a member on the node that has not ended, in a fixed order so that two sweeps lock alike."""
    living = Member.objects.filter(node_id=node_id, phase__in=["assigned", "preparing", "running"])
    return list(living.order_by("attempt__job_id").values_list("attempt__job_id", flat=True).distinct())


def step(job_id: str, event: events.JobEvent) -> JobValue | None:
    """Advance one job by one event. None when there is no such job; raises IllegalTransition when it cannot."""
    with transaction.atomic():
        row = Job.objects.select_for_update(of=("self",)).filter(id=job_id).first()
        if row is None:
            return None
        attempt = Attempt.objects.filter(job=row, number=row.attempt).first()
        members = list(Member.objects.filter(attempt=attempt)) if attempt else []
        before = job_value(row, members)
        result = transitions.advance(before, event, max_restarts=settings.MAX_RESTARTS)
        after = result.job
        if after == before and not result.effects:
            return before
        write(row, after, attempt, members, event.at_ms)
        keep(row, event)
        for effect in result.effects:
            _carry_out(effect, after, attempt, event)
        return after


def write(row: Job, after: JobValue, attempt: Attempt | None, members: list[Member], at_ms: int) -> None:
    """Put the core's value back into the rows; the caller holds the row's lock."""
    columns: dict[str, Any] = job_columns(after)
    columns["reason"] = cluster_queries.with_hostnames(after.reason)
    if after.state in WAITING and row.state not in WAITING:
        columns["waiting_since_ms"] = at_ms
    if after.state in TERMINAL:
        columns |= {"wait_code": "", "wait_sentence": "", "wait_numbers": {}, "queue_position": None}
    Job.objects.filter(id=row.id).update(**columns)
    for name, value in columns.items():
        setattr(row, name, value)
    if attempt is None or attempt.number != after.attempt:
        return  # just placed: the members of the new attempt are new rows already
    by_node = {member.node: member for member in after.members}
    for member_row in members:
        value = by_node.get(member_row.node_id)
        if value is not None and (value.phase != member_row.phase or value.exit_code != member_row.exit_code):
            Member.objects.filter(id=member_row.id).update(
                phase=value.phase, exit_code=value.exit_code, reason=value.reason
            )
    if attempt.running_ms is None and after.state == JobState.RUNNING:
        Attempt.objects.filter(id=attempt.id).update(running_ms=at_ms)


def keep(row: Job, event: events.JobEvent) -> None:
    """The event's row, in the same transaction as what it changed. People read hostnames, so these stand in it."""
    data = {key: value for key, value in asdict(event).items() if key not in {"at_ms", "actor", "cause"}}
    kind = type(event).__name__
    if isinstance(event, events.MemberObserved):
        kind = f"Member{event.phase.title()}"
    live.record(
        kind,
        f"job:{row.id}",
        actor=cluster_queries.with_hostnames(event.actor),
        team=row.team_id,
        cause=cluster_queries.with_hostnames(events.describe(event)),
        at_ms=event.at_ms,
        data={**data, "name": row.name, "state": row.state},
        notify=(f"jobs:{row.team_id}", "cluster"),
    )


def _carry_out(
    effect: effects.Effect, job: JobValue, attempt: Attempt | None, event: events.JobEvent
) -> None:
    match effect:
        case effects.StopMembers(nodes=nodes):
            clusters.touch(list(nodes))  # their wanted state now says stop
        case effects.ReleaseSlots(nodes=nodes) if attempt is not None:
            for node in nodes:
                clusters.release_slots(attempt.id, node)
                quotas.close_entry(attempt.id, node, event.at_ms)
        case effects.GangEnded(outcome=outcome, sentence=sentence) if attempt is not None:
            Attempt.objects.filter(id=attempt.id).update(
                ended_ms=event.at_ms, outcome=cluster_queries.with_hostnames(f"{outcome}: {sentence}")[:200]
            )
            hints.tick()
        case effects.HintScheduler():
            hints.tick()
