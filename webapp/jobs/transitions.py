"""Transitions of jobs: load rows, advance them in the core, write changes and events, carry out effects.

A thousand jobs take as many statements as one.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F

from platform_core.jobs import effects, transitions
from platform_core.jobs import events as ev
from platform_core.jobs.effects import Effect
from platform_core.jobs.job import Job as JobValue
from platform_core.jobs.job import MemberPhase
from platform_core.jobs.states import TERMINAL, WAITING, JobState
from webapp.base.rows import update_each
from webapp.events import services as events
from webapp.events.services import Happening
from webapp.jobs import hints, mails, recoveries, traces
from webapp.jobs.mapping import job_columns, job_value
from webapp.jobs.models import Attempt, Job, Member
from webapp.jobs.recoveries import AttemptEnd
from webapp.jobs.signals import changed
from webapp.nodes import queries as cluster_queries
from webapp.nodes import services as clusters
from webapp.quotas import services as quotas

NO_WAIT: dict[str, Any] = {
    "wait_code": "", "wait_sentence": "", "wait_numbers": {}, "wait_place": [], "queue_position": None,
}  # fmt: skip
_KEPT_APART = {"at_ms", "actor", "cause"}
_NOT_ENDED = {MemberPhase.ASSIGNED, MemberPhase.PREPARING, MemberPhase.RUNNING}

Step = tuple[ev.JobEvent, JobState, tuple[Effect, ...]]  # what happened, where it led, what follows


def jobs_on(node_id: str, slots: Collection[int] | None = None) -> list[str]:
    """Returns the jobs with a living member on the node, or on one of these slots of it, if any are named.

    In a fixed order, so that two sweeps lock alike.
    """
    living = Member.objects.filter(node_id=node_id, phase__in=["assigned", "preparing", "running"])
    members = living.order_by("attempt__job_id").values_list("attempt__job_id", "slots")
    return list(dict.fromkeys(job_id for job_id, held in members if not slots or set(slots) & set(held)))


def step(job_id: str, event: ev.JobEvent) -> JobValue | None:
    """Advance one job by one event. None when there is no such job; raises IllegalTransition when it cannot."""
    with transaction.atomic():
        batch = Batch([job_id])
        if job_id not in batch.jobs:
            return None
        after = batch.advance(job_id, event)
        batch.write()
        return after


@dataclass
class Advancing:
    """A job's rows, its value, and its steps since they were read."""

    row: Job
    attempt: Attempt | None
    members: list[Member]
    before: JobValue
    value: JobValue
    steps: list[Step] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return self.value != self.before

    @property
    def shows(self) -> bool:
        """Whether its state, start or end is another than when it was read."""
        old, new = self.before, self.value
        return (old.state, old.started_ms, old.finished_ms) != (new.state, new.started_ms, new.finished_ms)


class Batch:
    """Jobs that are advanced together, inside the caller's transaction. Their rows are locked in the order of ids."""

    def __init__(self, job_ids: Iterable[str]) -> None:
        rows = Job.objects.select_for_update(of=("self",)).filter(id__in=set(job_ids)).order_by("id")
        locked = {row.id: row for row in rows}
        newest = Attempt.objects.filter(job__in=locked, number=F("job__attempt"))
        attempts = {attempt.job_id: attempt for attempt in newest}
        members: dict[str, list[Member]] = {attempt.id: [] for attempt in attempts.values()}
        for member in Member.objects.filter(attempt__in=members):
            members[member.attempt_id].append(member)
        self.jobs: dict[str, Advancing] = {}
        for row in locked.values():
            attempt = attempts.get(row.id)
            its = members[attempt.id] if attempt else []
            value = job_value(row, attempt, its)
            self.jobs[row.id] = Advancing(row, attempt, its, value, value)

    def advance(self, job_id: str, event: ev.JobEvent) -> JobValue:
        """Returns the job after the event. Raises IllegalTransition and leaves the job as it was."""
        job = self.jobs[job_id]
        result = transitions.advance(
            job.value,
            event,
            save_grace_ms=settings.STOP_GRACE_SECONDS * 1000,
        )
        if result.job != job.value or result.effects:
            job.value = result.job
            job.steps.append((event, result.job.state, result.effects))
        return result.job

    def keep_only(self, job_ids: Iterable[str]) -> None:
        """Drops the other jobs with their steps."""
        self.jobs = {job_id: self.jobs[job_id] for job_id in job_ids}

    def write(self) -> None:
        """Writes the changed values and their events, then carries out the effects."""
        moved = [job for job in self.jobs.values() if job.steps]
        if not moved:
            return
        _write_jobs([job for job in moved if job.changed])
        _write_members([job for job in moved if job.changed])
        _write_attempts(moved)
        keep([(job.row, event, state) for job in moved for event, state, _ in job.steps])
        if showing := [job.value for job in moved if job.shows]:
            changed.send(Job, jobs=showing)
        mails.failed([failure for job in moved if (failure := _failure(job))])
        _carry_out(moved)


def _failure(job: Advancing) -> tuple[Job, int, int] | None:
    if job.value.state is not JobState.FAILED or job.before.state is JobState.FAILED:
        return None
    return job.row, job.value.restarts, job.value.finished_ms or 0


def _write_jobs(changed: Sequence[Advancing]) -> None:
    reasons = cluster_queries.all_with_hostnames([job.value.reason for job in changed])
    rows = {}
    for job, reason in zip(changed, reasons, strict=True):
        columns: dict[str, Any] = job_columns(job.value) | {"reason": reason}
        columns |= {name: getattr(job.row, name) for name in NO_WAIT}
        if job.value.state in TERMINAL:
            columns |= NO_WAIT
        rows[job.row.id] = columns
    update_each(Job, rows)


def _write_members(changed: Sequence[Advancing]) -> None:
    """Skips the members of a gang that was just placed: their rows are new."""
    rows = {}
    for job in changed:
        if job.attempt is None or job.attempt.number != job.value.attempt:
            continue
        by_node = {member.node: member for member in job.value.members}
        for row in job.members:
            value = by_node.get(row.node_id)
            if value is not None and (value.phase != row.phase or value.exit_code != row.exit_code):
                rows[row.pk] = {
                    "phase": value.phase, "exit_code": value.exit_code, "end": value.end, "reason": value.reason,
                }  # fmt: skip
    update_each(Member, rows)


def _write_attempts(moved: Sequence[Advancing]) -> None:
    rows: dict[str, dict[str, Any]] = {}
    ends = []
    for job in moved:
        if job.attempt is not None:
            rows[job.attempt.id] = _attempt_columns(job, job.attempt)
            ends += _ends(job, job.attempt, rows[job.attempt.id])
    outcomes = cluster_queries.all_with_hostnames([columns["outcome"] for columns in rows.values()])
    for columns, outcome in zip(rows.values(), outcomes, strict=True):
        columns["outcome"] = outcome[:200]
    update_each(Attempt, rows)
    traces.ended(
        [job.attempt.id for job in moved if job.attempt is not None and _never_stepped(job.attempt, rows)]
    )
    recoveries.refresh({job.row.id for job in moved if job.attempt is not None and job.attempt.number > 1})
    recoveries.opened(ends)


def _never_stepped(attempt: Attempt, rows: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether it has ended now without a step."""
    ended_now = attempt.ended_ms is None and rows[attempt.id]["ended_ms"] is not None
    return ended_now and attempt.first_step_ms is None


def _ends(job: Advancing, attempt: Attempt, columns: dict[str, Any]) -> list[AttemptEnd]:
    """The end of this attempt, if it has ended now and another one follows."""
    for _, _, following in job.steps:
        for effect in following:
            if isinstance(effect, effects.GangEnded) and effect.outcome in WAITING:
                return [AttemptEnd(job.row, attempt, columns, effect.outcome, effect.end)]
    return []


def _attempt_columns(job: Advancing, attempt: Attempt) -> dict[str, Any]:
    names = (
        "running_ms",
        "stopping_ms",
        "ended_ms",
        "outcome",
        "end",
        "last_step",
        "kept_step",
        "lost_gpu_ms",
    )
    columns = {name: getattr(attempt, name) for name in names}
    for event, state, following in job.steps:
        if columns["running_ms"] is None and state == JobState.RUNNING:
            columns["running_ms"] = event.at_ms
        for effect in following:
            if isinstance(effect, effects.GangEnded | effects.StopMembers):
                columns["stopping_ms"] = columns["stopping_ms"] or event.at_ms
            if isinstance(effect, effects.GangEnded):
                columns |= {"ended_ms": event.at_ms, "end": effect.end}
                columns["outcome"] = f"{effect.outcome}: {effect.sentence}"
                columns |= _left_behind(job, attempt, effect.outcome, event.at_ms)
    return columns


def _left_behind(job: Advancing, attempt: Attempt, outcome: JobState, at_ms: int) -> dict[str, Any]:
    """Returns the last step, the step of the checkpoint that is left, and the slot time lost between them."""
    value, row = job.value, job.row
    columns = {"last_step": row.step if row.first_step is not None else None, "kept_step": None}
    if value.latest_checkpoint:
        columns["kept_step"] = value.latest_step
    elif value.spec.resume_from and row.first_step is not None:
        columns["kept_step"] = max(0, row.first_step - 1)
    if outcome is JobState.SUCCEEDED:
        return columns
    saved_here = value.latest_ms is not None and value.latest_attempt == attempt.number
    since_ms = value.latest_ms if saved_here else attempt.placed_ms
    slots = sum(len(member.slots) for member in job.members)
    return columns | {"lost_gpu_ms": slots * max(0, at_ms - (since_ms or at_ms))}


def keep(happened: Sequence[tuple[Job, ev.JobEvent, JobState]]) -> None:
    """Records the events, in the transaction of their changes, with hostnames in place of node ids."""
    actors = cluster_queries.all_with_hostnames([event.actor for _, event, _ in happened])
    causes = cluster_queries.all_with_hostnames([ev.describe(event) for _, event, _ in happened])
    events.record_all(
        [
            Happening(
                _kind(event),
                f"job:{row.id}",
                actor,
                row.team_id,
                cause,
                event.at_ms,
                {**_particulars(event), "name": row.name, "state": state},
                (f"jobs:{row.team_id}", "cluster"),
            )
            for (row, event, state), actor, cause in zip(happened, actors, causes, strict=True)
        ]
    )


def _kind(event: ev.JobEvent) -> str:
    if isinstance(event, ev.MemberObserved):
        return f"Member{event.phase.title()}"
    return type(event).__name__


def _particulars(event: ev.JobEvent) -> dict[str, Any]:
    found = {key: value for key, value in asdict(event).items() if key not in _KEPT_APART}
    for part in (found, *found.get("members", ())):
        if part.get("phase") in _NOT_ENDED:
            part["end"] = None
    return found


def _carry_out(moved: Sequence[Advancing]) -> None:
    stopping: set[str] = set()
    released: dict[tuple[str, str], int] = {}
    asks = False
    for attempt_id, event, effect in _effects(moved):
        match effect:
            case effects.StopMembers(nodes=nodes):
                stopping.update(nodes)  # their wanted state now says stop, with the grace in the job's row
            case effects.ReleaseSlots(nodes=nodes):
                released |= {(attempt_id, node): event.at_ms for node in nodes}
            case effects.GangEnded() | effects.HintScheduler():
                asks = True
    if released:
        clusters.release_slots(released.keys())
        quotas.close_entries(released)
    clusters.touch(stopping)
    if asks:
        hints.tick()


def _effects(moved: Sequence[Advancing]) -> Iterator[tuple[str, ev.JobEvent, Effect]]:
    for job in moved:
        attempt_id = job.attempt.id if job.attempt else ""
        for event, _, following in job.steps:
            for effect in following:
                yield attempt_id, event, effect
