"""What is measured of jobs, for the metrics of Prometheus, for alerts and for service levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Count, F, Max, Min, Sum

from platform_core.jobs.states import WAITING, JobState
from webapp.jobs.models import Attempt, Job, Recovery, UtilisationSample


@dataclass(frozen=True, slots=True)
class RunningJob:
    """`utilisation` from 0 to 1, as last sampled; steps a second over the whole attempt."""

    id: str
    name: str
    team: str
    utilisation: float | None
    step: int | None
    progress_ms: int | None
    steps_per_second: float | None


@dataclass(frozen=True, slots=True)
class Waiting:
    jobs: int
    slots: int
    longest_ms: int


@dataclass(frozen=True, slots=True)
class ClusterUse:
    at_ms: int
    slots: int
    held: int
    used: float | None  # slots; None where no held slot measures anything
    queued_jobs: int


@dataclass(frozen=True, slots=True)
class Ended:
    """Jobs that ended in a period; cancelled ones count nowhere."""

    succeeded: int
    failed_by_end: dict[str, int]  # end reason → jobs

    @property
    def failed(self) -> int:
        return sum(self.failed_by_end.values())

    @property
    def all(self) -> int:
        return self.succeeded + self.failed


def running() -> list[RunningJob]:
    """Jobs that train; those that are being stopped are left out."""
    rows = Job.objects.filter(state__in=(JobState.RUNNING, JobState.CHECKPOINTING), stop="none")
    return [_running(row) for row in rows.defer("spec", "lineage").order_by("id")]


def _running(row: Job) -> RunningJob:
    rate = None
    if row.first_step is not None and row.first_step_ms is not None and row.step is not None:
        lasted_ms = (row.progress_ms or 0) - row.first_step_ms
        rate = 1000 * (row.step - row.first_step) / lasted_ms if lasted_ms > 0 else None
    return RunningJob(row.id, row.name, row.team_id, row.utilisation, row.step, row.progress_ms, rate)


def waits(at_ms: int, more_urgent_than: int, longer_than_ms: int = 0) -> dict[str, Waiting]:
    """Team → its waiting jobs of a priority below that number that have waited for so long."""
    rows = Job.objects.filter(
        state__in=WAITING, priority__lt=more_urgent_than, waiting_since_ms__lte=at_ms - longer_than_ms
    ).order_by()
    sums = rows.values_list("team").annotate(Count("id"), Sum("num_gpus"), Min("waiting_since_ms"))
    return {team: Waiting(jobs, slots, at_ms - since) for team, jobs, slots, since in sums}


def cluster_use(since_ms: int) -> ClusterUse | None:
    """The newest sample of all GPU types together; None where none was taken since then."""
    newest = UtilisationSample.objects.filter(at_ms__gte=since_ms).aggregate(at=Max("at_ms"))["at"]
    if newest is None:
        return None
    rows = list(UtilisationSample.objects.filter(at_ms=newest))
    measured = [row for row in rows if row.utilisation is not None]
    idle = not any(row.held for row in rows)
    used = sum(row.held * (row.utilisation or 0.0) for row in measured) if measured or idle else None
    return ClusterUse(
        newest, sum(row.slots for row in rows), sum(row.held for row in rows), used,
        sum(row.queued_jobs for row in rows),
    )  # fmt: skip


def ended(from_ms: int, to_ms: int) -> Ended:
    rows = Job.objects.filter(finished_ms__gte=from_ms, finished_ms__lt=to_ms).order_by()
    counts = rows.values_list("state", "end").annotate(jobs=Count("id"))
    failed: Counter[str] = Counter()
    succeeded = 0
    for state, end, jobs in counts:
        if state == JobState.FAILED:
            failed[end] += jobs
        elif state == JobState.SUCCEEDED:
            succeeded += jobs
    return Ended(succeeded, dict(failed))


def by_state_and_team() -> dict[tuple[str, str], int]:
    """(state, team) → jobs."""
    rows = Job.objects.order_by().values_list("state", "team").annotate(jobs=Count("id"))
    return {(state, team): jobs for state, team, jobs in rows}


def queue(at_ms: int) -> dict[tuple[str, str], Waiting]:
    """(team, GPU type) → its waiting jobs."""
    rows = Job.objects.filter(state__in=WAITING).order_by().values_list("team", "gpu_type")
    sums = rows.annotate(Count("id"), Sum("num_gpus"), Min("waiting_since_ms"))
    return {(team, kind): Waiting(jobs, slots, at_ms - since) for team, kind, jobs, slots, since in sums}


def restarts_by_cause() -> dict[str, int]:
    """Reason why an attempt ended → how many jobs started again after it, ever."""
    rows = Recovery.objects.order_by().values_list("reason").annotate(count=Count("id"))
    return dict(rows)


def first_steps(from_ms: int, to_ms: int) -> list[tuple[int, int]]:
    """(GPUs, milliseconds from submission to the first step) of the jobs that made their first step then."""
    rows = Attempt.objects.filter(number=1, first_step_ms__gte=from_ms, first_step_ms__lt=to_ms)
    columns = rows.values_list("job__num_gpus", F("first_step_ms") - F("job__submitted_ms"))
    return [(gpus, max(0, took_ms)) for gpus, took_ms in columns]


def names_and_teams(job_ids: Collection[str]) -> dict[str, tuple[str, str]]:
    rows = Job.objects.filter(id__in=list(job_ids)).values_list("id", "name", "team_id")
    return {job_id: (name, team) for job_id, name, team in rows}
