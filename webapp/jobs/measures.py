"""What is measured of jobs, for the metrics of Prometheus, for alerts and for service levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Count, Exists, F, FloatField, Max, Min, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Cast

from platform_core.jobs.ends import ENDS
from platform_core.jobs.kind import JobKind
from platform_core.jobs.states import ACTIVE, WAITING, JobState
from platform_core.recovery.phases import Phases, Summary, summary
from platform_core.service_levels.first_steps import Start
from platform_core.units import HOUR_MS
from webapp.base.identity import now_ms
from webapp.jobs import recoveries
from webapp.jobs.idle_policy import SAMPLE_MS
from webapp.jobs.models import Attempt, Job, Recovery, UtilisationSample
from webapp.jobs.utilisation import KEPT_MS

PLATFORM_FAULTS = tuple(reason.value for reason, end in ENDS.items() if end.counts == "infrastructure")


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
    def failed_by_platform(self) -> int:
        return sum(self.failed_by_end.get(reason, 0) for reason in PLATFORM_FAULTS)

    @property
    def all(self) -> int:
        return self.succeeded + self.failed


# A specification of before there were kinds names none. Any kind but this one is not judged as training.
_TRAINS = Q(spec__kind=JobKind.TRAINING) | Q(spec__kind__isnull=True)


def running() -> list[RunningJob]:
    """Jobs that train; those that are being stopped are left out."""
    active = (JobState.RUNNING, JobState.CHECKPOINTING)
    rows = Job.objects.filter(_TRAINS, state__in=active, stop="none").order_by("id")
    columns = ("id", "name", "team_id", "utilisation", "step", "progress_ms", "first_step", "first_step_ms")
    return [
        RunningJob(job, name, team, use, step, at_ms, _steps_per_second(step, at_ms, *first))
        for job, name, team, use, step, at_ms, *first in rows.values_list(*columns)
    ]


def _steps_per_second(
    step: int | None, progress_ms: int | None, first_step: int | None, first_step_ms: int | None
) -> float | None:
    if first_step is None or first_step_ms is None or step is None:
        return None
    lasted_ms = (progress_ms or 0) - first_step_ms
    return 1000 * (step - first_step) / lasted_ms if lasted_ms > 0 else None


def waits(at_ms: int, priorities: range, longer_than_ms: int = 0) -> dict[str, Waiting]:
    """Team → its waiting jobs of these priorities that have waited for so long."""
    rows = Job.objects.filter(
        state__in=WAITING, priority__gte=priorities.start, priority__lt=priorities.stop,
        waiting_since_ms__lte=at_ms - longer_than_ms,
    ).order_by()  # fmt: skip
    sums = rows.values_list("team").annotate(Count("id"), Sum("num_gpus"), Min("waiting_since_ms"))
    return {team: Waiting(jobs, slots, at_ms - since) for team, jobs, slots, since in sums}


def cluster_use(since_ms: int) -> ClusterUse | None:
    """The newest sample of all GPU types together, without the slots of endpoints, whose load is their callers'.

    None where no sample was taken since then.
    """
    newest = UtilisationSample.objects.filter(at_ms__gte=since_ms).aggregate(at=Max("at_ms"))["at"]
    if newest is None:
        return None
    rows = list(UtilisationSample.objects.filter(at_ms=newest))
    measured = [row for row in rows if row.utilisation is not None]
    idle = not any(row.held for row in rows)
    used = sum(row.held * (row.utilisation or 0.0) for row in measured) if measured or idle else None
    serving = Job.objects.filter(spec__kind=JobKind.SERVICE, state__in=ACTIVE).order_by()
    serves = list(serving.values_list("num_gpus", "utilisation"))
    apart, busy = sum(slots for slots, _ in serves), sum(slots * (use or 0.0) for slots, use in serves)
    return ClusterUse(
        newest,
        slots=max(0, sum(row.slots for row in rows) - apart),
        held=max(0, sum(row.held for row in rows) - apart),
        used=None if used is None else max(0.0, used - busy),
        queued_jobs=sum(row.queued_jobs for row in rows),
    )


@dataclass(frozen=True, slots=True)
class Use:
    """Of one GPU type: shares in percent; None where nothing was measured."""

    gpu_type: str
    slots: float  # summed over the samples, as is what follows
    held_slots: float
    measured: float  # held slots of which somebody told how busy they were
    used: float
    unwanted: float = 0.0  # slots at moments at which no job held or waited for any of the type

    @property
    def held(self) -> float | None:
        return 100 * self.held_slots / self.slots if self.slots else None

    @property
    def busy(self) -> float | None:
        return 100 * self.used / self.measured if self.measured else None

    @property
    def unallocated_ms(self) -> int:
        """Slot time that nobody held, where it was measured: a sample stands for the time to the next one."""
        return round((self.slots - self.held_slots) * SAMPLE_MS)

    @property
    def wanted(self) -> float:
        """Slots of which the use is known, at moments at which jobs held or waited for some."""
        return max(self.used, self.slots - self.unwanted - (self.held_slots - self.measured))


def use_by_type(from_ms: int, to_ms: int) -> tuple[Use, ...]:
    """Nothing of a period of which some samples are not kept any more: the others would say something else."""
    if from_ms < now_ms() - KEPT_MS:
        return ()
    rows = UtilisationSample.objects.filter(at_ms__gte=from_ms, at_ms__lt=to_ms)
    slots, held = Cast("slots", FloatField()), Cast("held", FloatField())
    measured = Q(utilisation__isnull=False)
    # A moment counts by the slots that were held in it, as it does on the cluster page.
    summed = (
        rows.values("gpu_type")
        .order_by("gpu_type")
        .annotate(
            all=Sum(slots),
            all_held=Sum(held),
            all_measured=Sum(held, filter=measured, default=0.0),
            all_used=Sum(held * F("utilisation"), filter=measured, default=0.0),
            all_unwanted=Sum(slots, filter=Q(held=0, queued_jobs=0), default=0.0),
        )
    )
    columns = ("gpu_type", "all", "all_held", "all_measured", "all_used", "all_unwanted")
    return tuple(Use(*row) for row in summed.values_list(*columns))


def ended(from_ms: int, to_ms: int, team: str = "") -> Ended:
    rows = _of_team(Job.objects.filter(finished_ms__gte=from_ms, finished_ms__lt=to_ms).order_by(), team)
    counts = rows.values_list("state", "end").annotate(jobs=Count("id"))
    failed: Counter[str] = Counter()
    succeeded = 0
    for state, end, jobs in counts:
        if state == JobState.FAILED:
            failed[end] += jobs
        elif state == JobState.SUCCEEDED:
            succeeded += jobs
    return Ended(succeeded, dict(failed))


def ended_runs(from_ms: int, to_ms: int) -> list[tuple[int, int]]:
    """(GPUs, milliseconds from the first start to the end) of the jobs that ended then and had started."""
    rows = Job.objects.filter(finished_ms__gte=from_ms, finished_ms__lt=to_ms, started_ms__isnull=False)
    found = rows.order_by().values_list("num_gpus", "started_ms", "finished_ms")
    return [(gpus, finished - started) for gpus, started, finished in found if started and finished]


def waiting_gpu_ms() -> dict[tuple[str, str], int]:
    """(team, GPU type) → GPU time for which its waiting jobs may run: all of their GPUs for all of their limit."""
    columns = ("team", "gpu_type", "num_gpus", "spec__max_runtime_hours")
    asked: Counter[tuple[str, str]] = Counter()
    for team, gpu_type, gpus, hours in Job.objects.filter(state__in=list(WAITING)).values_list(*columns):
        asked[team, gpu_type] += round(gpus * float(hours) * HOUR_MS)
    return dict(asked)


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


def starts(from_ms: int, to_ms: int, team: str = "") -> list[Start]:
    """Of the training jobs that were submitted then. What does not train has no first step."""
    rows = _of_team(Job.objects.filter(submitted_ms__gte=from_ms, submitted_ms__lt=to_ms), team)
    firsts = rows.filter(_TRAINS).annotate(
        placed=Min("attempts__placed_ms"), step_ms=Min("attempts__first_step_ms")
    )
    columns = ("num_gpus", "submitted_ms", "placed", "step_ms", "finished_ms")
    return [Start(*row) for row in firsts.order_by().values_list(*columns)]


def first_steps(from_ms: int, to_ms: int, team: str = "") -> list[tuple[int, int]]:
    """(GPUs, milliseconds from submission to the first step) of the jobs that made their first step then."""
    earlier = Attempt.objects.filter(
        job=OuterRef("job"), number__lt=OuterRef("number"), first_step_ms__isnull=False
    )
    rows = Attempt.objects.filter(~Exists(earlier), first_step_ms__gte=from_ms, first_step_ms__lt=to_ms)
    rows = rows.filter(job__team=team) if team else rows
    columns = rows.values_list("job__num_gpus", F("first_step_ms") - F("job__submitted_ms"))
    return [(gpus, max(0, took_ms)) for gpus, took_ms in columns]


@dataclass(frozen=True, slots=True)
class Recovered:
    """Of the recoveries after faults of the platform that began in a period."""

    summary: Summary
    within_limit: int
    decided: int  # those that are over, or have taken longer than the limit already


def recovered(from_ms: int, to_ms: int, limit_ms: int, at_ms: int) -> Recovered:
    rows = Recovery.objects.filter(began_ms__gte=from_ms, began_ms__lt=to_ms, reason__in=PLATFORM_FAULTS)
    found = [(recoveries.phases_of(row), row.over, row.began_ms, row.steps_lost) for row in rows]
    within = sum(phases.complete and phases.total_ms <= limit_ms for phases, *_ in found)
    decided = sum(over or phases.complete or at_ms - began > limit_ms for phases, over, began, _ in found)
    known: list[tuple[Phases, bool, int]] = [(phases, over, lost) for phases, over, _, lost in found]
    return Recovered(summary(known), within, decided)


def _of_team(rows: QuerySet[Job], team: str) -> QuerySet[Job]:
    return rows.filter(team=team) if team else rows


@dataclass(frozen=True, slots=True)
class Owner:
    user_id: int
    warned: bool  # that the slots of the job idle


def owners(job_ids: Collection[str]) -> dict[str, Owner]:
    rows = Job.objects.filter(id__in=list(job_ids)).values_list("id", "user_id", "idle_told")
    return {job_id: Owner(user, warned) for job_id, user, warned in rows}


def mean_recovery_ms(job: Job) -> int | None:
    """Of its restarts that reached a step; None: none did."""
    return recoveries.of_job(job, now_ms()).summary.mean_ms
