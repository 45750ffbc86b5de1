"""Idle slots: owners are warned, and the slots are reclaimed if the operator wants that."""

from collections.abc import Iterable, Mapping

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

from platform_core.jobs.kind import JobKind
from platform_core.jobs.states import WAITING, JobState
from platform_core.scheduling.decisions import StopKind
from platform_core.scheduling.wording import amount
from platform_core.units import MINUTE_MS, format_duration_ms
from webapp.events import services as events
from webapp.jobs import mails, preemption, queries
from webapp.jobs.models import Job
from webapp.jobs.preemption import Preemption
from webapp.sockets import services as sockets

LEAST_MS = 5 * MINUTE_MS  # measured before a mean is meaningful
SAMPLE_MS = 15_000
LEAST_SAMPLES = LEAST_MS // SAMPLE_MS


def keep_utilisation(by_job: Mapping[str, float], at_ms: int) -> None:
    """Keeps the utilisation (0 to 1) of each running job, from the telemetry of the nodes."""
    for job_id, value in by_job.items():
        mine = Job.objects.filter(id=job_id)
        mine.update(utilisation=value, busy_samples=F("busy_samples") + 1, busy_sum=F("busy_sum") + value)
        if 100 * value < settings.IDLE_PERCENT:
            mine.filter(
                ~Q(spec__kind=JobKind.SERVICE) | Q(spec__kind__isnull=True), idle_since_ms=None
            ).update(idle_since_ms=at_ms)
        elif warned := list(mine.exclude(idle_since_ms=None).values_list("team_id", "idle_told")):
            mine.update(idle_since_ms=None, idle_told=False)
            for team in [team for team, was_warned in warned if was_warned]:  # lists drop the warning
                sockets.publish(f"jobs:{team}")
        sockets.publish(f"job:{job_id}")


def idle(at_ms: int, teams: Iterable[str] | None = None) -> list[Job]:
    """Returns running jobs that have idled beyond the limit, the longest first; None means of all teams."""
    running = Job.objects.filter(state=JobState.RUNNING, stop="none", idle_since_ms__lte=at_ms - _limit_ms())
    if teams is not None:
        running = running.filter(team__in=list(teams))
    return list(running.select_related("user").order_by("idle_since_ms", "id"))


def since(job: Job, at_ms: int) -> int | None:
    """Returns since when its slots idle, if that is beyond the limit."""
    if job.state != JobState.RUNNING or job.stop != "none" or job.idle_since_ms is None:
        return None
    return job.idle_since_ms if at_ms - job.idle_since_ms >= _limit_ms() else None


def warning(job: Job, at_ms: int) -> str:
    """Returns what idles, for how long, what follows and what to do; "" where nothing idles."""
    if since(job, at_ms) is None:
        return ""
    next_ = follows(job, at_ms)
    text = f"{_sentence(job, at_ms)}{f'; it {next_}' if next_ else ''}"
    return f"{text[:1].upper()}{text[1:]}. If it hangs, cancel it: its checkpoints, metrics and log stay."


def _limit_ms() -> int:
    return int(settings.IDLE_MINUTES * MINUTE_MS)


def _sentence(job: Job, at_ms: int) -> str:
    have = "has" if job.num_gpus == 1 else "have"
    for_ms = at_ms - (job.idle_since_ms or at_ms)
    return (
        f"its {amount(job.num_gpus, job.gpu_type)} {have} been below {settings.IDLE_PERCENT} % "
        f"for {format_duration_ms(for_ms)}"
    )


def hardly_busy(from_ms: int, to_ms: int, below: float) -> list[Job]:
    """Returns jobs that ran in this time with a mean utilisation below the limit."""
    ran = Job.objects.filter(Q(finished_ms__gte=from_ms) | Q(state=JobState.RUNNING), started_ms__lt=to_ms)
    measured = ran.filter(busy_samples__gte=LEAST_SAMPLES, busy_sum__lt=below * F("busy_samples"))
    return list(measured.select_related("user").order_by("id"))


def follows(job: Job, at_ms: int) -> str:
    """Returns what follows the warning; "" where the operator does not reclaim idle slots."""
    if not settings.IDLE_RECLAIM:
        return ""
    if not job.spec["preemptible"]:
        return "keeps its slots: it is not preemptible"
    left_ms = (job.idle_since_ms or at_ms) + _reclaimed_after_ms() - at_ms
    if left_ms > 0:
        return f"gives its slots up in {format_duration_ms(left_ms)}, if others wait for them"
    return "gives its slots up as soon as others wait for them"


def deal_with_idle(at_ms: int) -> None:
    """Warns once; after twice the limit reclaims preemptible slots, if the operator wants it and a job is pending."""
    for job in idle(at_ms):
        for_ms, sentence = at_ms - (job.idle_since_ms or at_ms), _sentence(job, at_ms)
        if not job.idle_told:
            _warn(job, sentence, at_ms)
        elif settings.IDLE_RECLAIM and for_ms >= _reclaimed_after_ms() and (others := _wanted_by(job)):
            cause = f"{sentence}; {others.id} of {others.team_id} waits for them"
            idled = Preemption(StopKind.IDLE, cause, others.id, others.team_id)
            _reclaim(job, sentence, idled, at_ms)


@transaction.atomic
def _reclaim(job: Job, sentence: str, idled: Preemption, at_ms: int) -> None:
    if preemption.preempt(job.id, idled, at_ms):
        mails.taken_off(job, sentence, idled.for_team, at_ms)


def _reclaimed_after_ms() -> int:
    return 2 * _limit_ms()


def _wanted_by(job: Job) -> Job | None:
    """Returns the first pending job for its type; None if this one is not preemptible."""
    if not job.spec["preemptible"]:
        return None
    waiting = Job.objects.filter(state__in=list(WAITING), gpu_type=job.gpu_type).exclude(id=job.id)
    return queries.in_queue_order(waiting).first()


@transaction.atomic
def _warn(job: Job, sentence: str, at_ms: int) -> None:
    if not Job.objects.filter(id=job.id, idle_told=False).update(idle_told=True):
        return
    mails.idles(job, warning(job, at_ms), at_ms)
    events.record(
        "SlotsIdle",
        f"job:{job.id}",
        actor="system",
        team=job.team_id,
        cause=sentence,
        at_ms=at_ms,
        data={"name": job.name, "state": job.state},
        notify=(f"jobs:{job.team_id}", "cluster"),
    )
