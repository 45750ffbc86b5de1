"""The workload as the scheduler takes it: pending jobs, running jobs, and those of the last day."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

from django.db.models import F, Q

from platform_core.cluster.snapshot import PendingJob, RunningJob
from platform_core.jobs import recovery
from platform_core.jobs import spec as specification
from platform_core.jobs.job import Stop
from platform_core.jobs.spec import JobSpec
from platform_core.jobs.states import ACTIVE, WAITING, JobState
from platform_core.scheduling.restarts import LATELY, restart_ms, size_class
from platform_core.scheduling.spares import Wish
from platform_core.simulation.workload import TraceJob
from platform_core.units import HOUR_MS
from webapp.base.identity import now_ms
from webapp.jobs.history import losses_ms
from webapp.jobs.kept_places import kept_while_pending, kept_while_stopping, with_kept_slots
from webapp.jobs.mapping import failures
from webapp.jobs.models import Attempt, Job, Member
from webapp.jobs.place_steps import nodes_of_types, with_place_steps

_LEARNT_FROM = 200
_FEW = 5
_COLUMNS = (
    "id", "team_id", "user__username", "priority", "submitted_ms", "failures", "waiting_since_ms", "resize_to",
    "room_on", "room_until_ms", "not_before_ms", "attempt", "spec", "wait_numbers",
)  # fmt: skip


def pending() -> tuple[PendingJob, ...]:
    waiting = Job.objects.filter(state__in=list(WAITING)).select_related("user").only(*_COLUMNS)
    rows = list(waiting.order_by("submitted_ms", "id"))
    attained = _attained_gpu_ms([row.id for row in rows if row.attempt])
    resized = Member.objects.filter(
        attempt__job__in=[row.id for row in rows if row.resize_to], attempt__number=F("attempt__job__attempt")
    )
    kept = kept_while_pending([row for row in rows if row.attempt])
    ran_on: dict[str, list[str]] = {}
    for job_id, node in resized.order_by("node_id").values_list("attempt__job_id", "node_id"):
        ran_on.setdefault(job_id, []).append(node)
    node_of = nodes_of_types()
    jobs = []
    for row in rows:
        spec = specification.restore(row.spec)
        job = _pending(row, spec, attained.get(row.id, 0), tuple(ran_on.get(row.id, ())))
        jobs.append(with_kept_slots(with_place_steps(job, spec, node_of), kept.get(row.id)))
    return tuple(jobs)


def as_submitted(spec: JobSpec, job_id: str, username: str, now_ms: int) -> PendingJob:
    """Returns the job as it would wait if it were submitted now."""
    job = PendingJob.of_spec(spec, id=job_id, user=username, submitted_ms=now_ms, waiting_since_ms=now_ms)
    return with_place_steps(job, spec, nodes_of_types())


def waiting_for_data() -> dict[str, str]:
    """Waiting job → the dataset version that is copied to its nodes."""
    waiting = Job.objects.filter(state__in=list(WAITING)).exclude(spec__dataset="")
    rows = waiting.values_list("id", "spec__dataset", "spec__mount_dataset")
    return {job: version for job, version, mounted in rows if version and not mounted}


def spare_wishes() -> dict[str, Wish]:
    """What the active jobs with spare nodes want of them."""
    rows = (
        Job.objects.filter(state__in=list(ACTIVE), spec__spares__gt=0).select_related("user").only(*_COLUMNS)
    )
    specs = {row.id: specification.restore(row.spec) for row in rows}
    return {row.id: Wish(specs[row.id].spares, _pending(row, specs[row.id], 0)) for row in rows}


def _pending(row: Job, spec: JobSpec, attained_gpu_ms: int, ran_on: tuple[str, ...] = ()) -> PendingJob:
    submitted = PendingJob.of_spec(
        spec,
        id=row.id,
        user=row.user.username,
        submitted_ms=row.submitted_ms,
        waiting_since_ms=row.waiting_since_ms,
    )
    return replace(
        submitted,
        priority=row.priority,  # may change while it waits
        excluded_nodes=recovery.avoided(failures(row), now_ms()),
        attained_gpu_ms=attained_gpu_ms,
        resize_to=row.resize_to,
        resize_on=ran_on if row.resize_to else (),
        reserved_nodes=tuple(row.room_on),
        reserved_until_ms=row.room_until_ms,
        not_before_ms=row.not_before_ms,
        offered_ms=row.wait_numbers.get("offered_ms", 0),
    )


def _attained_gpu_ms(job_ids: Iterable[str]) -> dict[str, int]:
    """Returns the GPU time of each job in attempts that have ended."""
    ended = Member.objects.filter(attempt__job__in=list(job_ids), attempt__ended_ms__isnull=False)
    attained: Counter[str] = Counter()
    for job_id, slots, placed_ms, ended_ms in ended.values_list(
        "attempt__job_id", "slots", "attempt__placed_ms", "attempt__ended_ms"
    ):
        attained[job_id] += len(slots) * ((ended_ms or placed_ms) - placed_ms)
    return dict(attained)


def running(only: str | None = None) -> tuple[RunningJob, ...]:
    """Returns the jobs that hold slots, or `only` this one."""
    held: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
    members = Member.objects.filter(phase__in=["assigned", "preparing", "running"]).order_by(
        "attempt_id", "rank"
    )
    if only is not None:
        members = members.filter(attempt__job=only)
    for job_id, node, slots in members.values_list("attempt__job_id", "node_id", "slots"):
        held.setdefault(job_id, []).append((node, tuple(slots)))
    rows = list(Job.objects.filter(id__in=held).select_related("user").order_by("id"))
    attained = _attained_gpu_ms([row.id for row in rows if row.attempt > 1])
    restarts = _restarts_ms(rows)
    kept = kept_while_stopping([row for row in rows if row.stop == Stop.RESTART])
    stopped = _preemptions([row.id for row in rows if row.attempt > 1])
    return tuple(
        with_kept_slots(
            _running(row, tuple(held[row.id]), attained.get(row.id, 0), restarts[row.id], stopped[row.id]),
            kept.get(row.id),
        )
        for row in rows
    )


def _preemptions(job_ids: Sequence[str]) -> Counter[str]:
    """Returns how many attempts of each job were preempted."""
    stopped = Attempt.objects.filter(job__in=job_ids, outcome__startswith=JobState.PREEMPTED.value)
    return Counter(stopped.values_list("job_id", flat=True)) if job_ids else Counter()


def _restarts_ms(rows: Sequence[Job]) -> dict[str, int | None]:
    """Returns the measured restart time of each of these jobs; None where no start was measured."""
    ran = Attempt.objects.exclude(running_ms=None)
    columns = ("placed_ms", "running_ms", "first_step_ms", "number")
    first: dict[str, int] = {}
    own: dict[str, list[int]] = {}
    for job_id, *times, number in ran.filter(job__in=[row.id for row in rows]).values_list(
        "job_id", *columns
    ):
        if number > 1:
            own.setdefault(job_id, []).append(_took_ms(*times))
        else:
            first[job_id] = _took_ms(*times)
    alike: dict[int, list[int]] = {}
    lately = ran.filter(number__gt=1).order_by("-placed_ms").values_list("job__num_gpus", *columns)
    for gpus, *times, _ in lately[: _LEARNT_FROM if rows else 0]:
        same = alike.setdefault(size_class(gpus), [])
        if len(same) < LATELY:
            same.append(_took_ms(*times))
    return {
        row.id: restart_ms(own.get(row.id, ()), alike.get(size_class(row.num_gpus), ()), first.get(row.id))
        for row in rows
    }


def _took_ms(placed_ms: int, running_ms: int, first_step_ms: int | None) -> int:
    """Returns the time to the first step where the script reports steps, else to the start of its processes."""
    return max(0, running_ms - placed_ms, (first_step_ms or 0) - placed_ms)


def _running(
    row: Job,
    placement: tuple[tuple[str, tuple[int, ...]], ...],
    attained_gpu_ms: int,
    restart_ms: int | None,
    preemptions: int,
) -> RunningJob:
    spec = specification.restore(row.spec)
    started = row.started_ms or row.submitted_ms
    stopping = row.stop != Stop.NONE
    comes_back = spec.preemptible and row.stop in (Stop.NONE, Stop.PREEMPT)
    nodes = tuple(node for node, _ in placement)
    return RunningJob(
        id=row.id,
        team=row.team_id,
        gpu_type=row.gpu_type,
        priority=row.priority,
        placement=placement,
        started_ms=started,
        expected_end_ms=started + spec.max_runtime_ms,
        last_checkpoint_ms=row.latest_ms if row.latest_attempt == row.attempt else None,
        preemptible=spec.preemptible and not stopping,  # a stopping job releases its slots anyway
        num_gpus=spec.num_gpus,
        min_gpus=spec.min_gpus,
        submitted_ms=row.submitted_ms,
        attained_gpu_ms=attained_gpu_ms,
        max_runtime_ms=spec.max_runtime_ms,
        saves_when_stopped=row.watches_stop and row.latest_checkpoint != "",
        asks=_pending(row, spec, attained_gpu_ms, nodes) if comes_back else None,
        stopping=stopping,
        restart_ms=restart_ms,
        preemptions=preemptions,
        losses_ms=losses_ms(row) if spec.min_gpus < spec.num_gpus else (),
    )


def since(gpu_type: str, from_ms: int, now_ms: int) -> list[TraceJob]:
    """Returns the jobs of a type that ran, were pending or came since then, as the simulator takes them, oldest first.

    Older ones come at the beginning, with the work that was left then. The duration of an unfinished one is an
    estimate: what it has run, or the usual share of its limit if that is more.
    """
    rows = Job.objects.filter(gpu_type=gpu_type).filter(Q(finished_ms=None) | Q(finished_ms__gte=from_ms))
    had_gpu_ms = Counter[str]()
    members = Member.objects.filter(attempt__job__in=rows).filter(
        Q(attempt__ended_ms=None) | Q(attempt__ended_ms__gte=from_ms)
    )
    for job_id, slots, placed_ms, ended_ms in members.values_list(
        "attempt__job_id", "slots", "attempt__placed_ms", "attempt__ended_ms"
    ):
        had_gpu_ms[job_id] += len(slots) * ((ended_ms or now_ms) - max(placed_ms, from_ms))
    percent = percent_of_limits_used()
    return [
        # An elastic job may have had fewer than it asked for: the simulator wants to know how long it takes with all.
        _trace_job(row, had_gpu_ms[row.id] // row.num_gpus, percent, from_ms)
        for row in rows.order_by("submitted_ms", "id")
    ]


def _trace_job(row: Job, ran_ms: int, percent_used: int, from_ms: int) -> TraceJob:
    limit_ms = round(float(row.spec["max_runtime_hours"]) * HOUR_MS)
    least = int(row.spec["min_gpus"])
    expected_ms = 0 if row.finished_ms else limit_ms * percent_used // 100
    return TraceJob(
        id=row.id,
        submit_ms=max(row.submitted_ms, from_ms),
        gpus=row.num_gpus,
        duration_ms=max(1, ran_ms, expected_ms),
        limit_ms=limit_ms,
        team=row.team_id,
        priority=row.priority,
        preemptible=bool(row.spec["preemptible"]),
        min_gpus=least if least < row.num_gpus else 0,
    )


def percent_of_limits_used() -> int:
    """Returns the median share of their time limits that the newest successful jobs used; 30 before there are five."""
    ended = Job.objects.filter(state=JobState.SUCCEEDED, started_ms__isnull=False).order_by("-finished_ms")
    rows = ended.values_list("started_ms", "finished_ms", "spec__max_runtime_hours")[:_LEARNT_FROM]
    shares = [
        100 * ((end or 0) - (begin or 0)) / (float(hours) * HOUR_MS) for begin, end, hours in rows if hours
    ]
    return min(100, max(1, round(median(shares)))) if len(shares) >= _FEW else 30
