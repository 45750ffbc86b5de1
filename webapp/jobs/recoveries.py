"""The recoveries of jobs: opened when an attempt ends and another follows, measured as the next one goes on."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.db.models import Q

from platform_core.jobs.states import JobState
from platform_core.recovery.phases import (
    NAMES,
    AttemptTimes,
    Effective,
    Phases,
    Summary,
    began_ms,
    between,
    effective,
    summary,
    weighted,
)
from webapp.base.rows import update_each
from webapp.jobs import traces
from webapp.jobs.models import Attempt, Job, Member, Recovery
from webapp.sockets import services as sockets

log = logging.getLogger(__name__)
MILESTONES = {"script": "script_ms", "loaded": "loaded_ms", "first_step": "first_step_ms"}


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """An attempt that has ended, of a job that waits for the next one."""

    job: Job  # as it was before the end: with the progress of the attempt
    attempt: Attempt
    columns: dict[str, Any]  # of the attempt, not written yet
    outcome: JobState
    reason: str


def opened(ends: Iterable[AttemptEnd]) -> None:
    """Opens the recovery of each. In the transaction of the caller."""
    rows = []
    for end in ends:
        progress_ms = end.job.progress_ms if end.job.first_step is not None else None
        columns = {name: getattr(end.attempt, name) for name in ("placed_ms", "loaded_ms", "first_step_ms")}
        columns |= {name: end.columns[name] for name in ("running_ms", "stopping_ms", "ended_ms")}
        times = AttemptTimes(**columns, progress_ms=progress_ms, failed=end.outcome is JobState.PENDING)
        steps_lost = max(0, (end.columns["last_step"] or 0) - (end.columns["kept_step"] or 0))
        rows.append(
            Recovery(
                job=end.job, attempt=end.attempt.number, reason=end.reason, began_ms=began_ms(times),
                steps_lost=steps_lost, **_columns(between(times, None)),
            )
        )  # fmt: skip
    Recovery.objects.bulk_create(rows, ignore_conflicts=True)


def refresh(job_ids: Collection[str]) -> None:
    """Measures the recoveries of these jobs that are not over, by how far the next attempt has come."""
    rows = Recovery.objects.filter(job__in=job_ids, over=False)
    open_rows = {(row.job_id, row.attempt): row for row in rows}
    if not open_rows:
        return
    attempts = {
        (attempt.job_id, attempt.number): attempt
        for attempt in Attempt.objects.filter(job__in={job_id for job_id, _ in open_rows})
    }
    changes = {}
    for (job_id, number), row in open_rows.items():
        following = attempts.get((job_id, number + 1))
        if following is None:
            continue
        phases = between(_resumed(row), _times(following))
        over = phases.complete or following.ended_ms is not None
        changes[row.pk] = _columns(phases) | {"over": over}
    update_each(Recovery, changes)


def milestone(job_id: str, attempt: int, name: str, at_ms: int) -> None:
    """Keeps when an attempt reached a milestone for the first time. Names that are not kept are ignored."""
    column = MILESTONES.get(name)
    if column is None:
        return
    its = Attempt.objects.filter(job=job_id, number=attempt)
    if not its.filter(**{column: None}).update(**{column: at_ms}):
        return
    log.info("attempt %d of %s reached %s", attempt, job_id, name.replace("_", " "))
    if name == "first_step":
        traces.stepped(its.get().id)
    if attempt > 1:
        refresh([job_id])
        sockets.publish(f"job:{job_id}")


@dataclass(frozen=True, slots=True)
class Measured:
    """A recovery as it is shown."""

    attempt: int
    reason: str
    began_ms: int
    phases: Phases
    steps_lost: int
    over: bool


@dataclass(frozen=True, slots=True)
class JobRecoveries:
    recoveries: tuple[Measured, ...]  # newest first
    summary: Summary
    effective: Effective


def of_job(job: Job, now_ms: int) -> JobRecoveries:
    rows = [_measured(row) for row in Recovery.objects.filter(job=job).order_by("-attempt")]
    attempts = list(Attempt.objects.filter(job=job).order_by("number"))
    times = effective(_all_times(attempts), job.finished_ms or now_ms)
    return JobRecoveries(tuple(rows), _summary(rows), times)


def effective_of_period(from_ms: int, to_ms: int) -> Effective:
    """GPU time of the runs that had an attempt then and reported steps."""
    then = Attempt.objects.filter(Q(ended_ms=None) | Q(ended_ms__gte=from_ms), placed_ms__lt=to_ms)
    rows = then.select_related("job").order_by("job", "number")
    times = zip(rows, _all_times(rows), strict=True)
    runs = [
        (job, [of_attempt for _, of_attempt in both])
        for job, both in groupby(times, lambda both: both[0].job)
    ]
    return weighted(
        (effective(run, to_ms, from_ms), job.num_gpus)
        for job, run in runs
        if any(attempt.first_step_ms is not None for attempt in run)
    )


def of_period(from_ms: int, to_ms: int) -> Summary:
    """Of all recoveries that began then."""
    return _summary(
        [_measured(row) for row in Recovery.objects.filter(began_ms__gte=from_ms, began_ms__lt=to_ms)]
    )


def _summary(rows: Iterable[Measured]) -> Summary:
    return summary([(row.phases, row.over, row.steps_lost) for row in rows])


def phases_of(row: Recovery) -> Phases:
    return Phases(*(getattr(row, f"{name}_ms") for name in NAMES))


def _measured(row: Recovery) -> Measured:
    return Measured(row.attempt, row.reason, row.began_ms, phases_of(row), row.steps_lost, row.over)


def _columns(phases: Phases) -> dict[str, int | None]:
    return {f"{name}_ms": getattr(phases, name) for name in NAMES}


def _resumed(row: Recovery) -> AttemptTimes:
    """The ended attempt, by what its recovery has kept of it."""
    stopping_ms = row.began_ms + (row.detect_ms or 0)
    return AttemptTimes(row.began_ms, stopping_ms=stopping_ms, ended_ms=stopping_ms + (row.stop_ms or 0))


def _all_times(rows: Collection[Attempt]) -> list[AttemptTimes]:
    lost = [row.id for row in rows if row.lost_gpu_ms]
    slots: Counter[str] = Counter()
    for attempt_id, indices in Member.objects.filter(attempt__in=lost).values_list("attempt_id", "slots"):
        slots[attempt_id] += len(indices)
    return [_times(row, slots[row.id]) for row in rows]


def _times(row: Attempt, slots: int = 1) -> AttemptTimes:
    kept_ms = None
    if row.ended_ms is not None:
        kept_ms = row.ended_ms - row.lost_gpu_ms // max(1, slots)
    return AttemptTimes(
        placed_ms=row.placed_ms,
        running_ms=row.running_ms,
        loaded_ms=row.loaded_ms,
        first_step_ms=row.first_step_ms,
        stopping_ms=row.stopping_ms,
        ended_ms=row.ended_ms,
        kept_ms=kept_ms,
    )
