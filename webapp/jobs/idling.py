"""Slots that are held and not used: their people are warned, and where the operator wants it they are taken back."""

from collections.abc import Mapping

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

from platform_core.jobs.states import WAITING, JobState
from platform_core.scheduling.wording import amount
from platform_core.units import MINUTE_MS, format_duration_ms
from webapp.jobs import queries, services
from webapp.jobs.models import Job
from webapp.jobs.signals import taken_back
from webapp.live import services as live

LEAST_SAMPLES = 20  # five minutes of them, before a mean says anything


def keep_utilisation(by_job: Mapping[str, float], at_ms: int) -> None:
    """How busy the slots of each running job are (0 to 1), from the telemetry of the nodes."""
    for job_id, value in by_job.items():
        mine = Job.objects.filter(id=job_id)
        mine.update(utilisation=value, busy_samples=F("busy_samples") + 1, busy_sum=F("busy_sum") + value)
        if 100 * value < settings.IDLE_PERCENT:
            mine.filter(idle_since_ms=None).update(idle_since_ms=at_ms)
        else:
            mine.exclude(idle_since_ms=None).update(idle_since_ms=None, idle_told=False)
        live.publish(f"job:{job_id}")


def idle(at_ms: int) -> list[Job]:
    """Running jobs whose slots have idled for longer than is put up with, the longest first."""
    since = at_ms - settings.IDLE_MINUTES * MINUTE_MS
    running = Job.objects.filter(state=JobState.RUNNING, stop="none", idle_since_ms__lte=since)
    return list(running.select_related("user").order_by("idle_since_ms", "id"))


def hardly_busy(since_ms: int, below: float) -> list[Job]:
    """Jobs that ran since then and whose slots were busy for a smaller part of the time, on average over their life."""
    ran = Job.objects.filter(Q(finished_ms__gte=since_ms) | Q(state=JobState.RUNNING))
    measured = ran.filter(busy_samples__gte=LEAST_SAMPLES, busy_sum__lt=below * F("busy_samples"))
    return list(measured.select_related("user").order_by("id"))


def follows(job: Job, at_ms: int) -> str:
    """What is done about a job that idles, beyond the warning; nothing where the operator wants no more."""
    if not settings.IDLE_RECLAIM:
        return ""
    if not job.spec["preemptible"]:
        return "keeps its slots: it is not preemptible"
    left_ms = (job.idle_since_ms or at_ms) + _taken_back_after_ms() - at_ms
    if left_ms > 0:
        return f"gives its slots up in {format_duration_ms(left_ms)}, if others wait for them"
    return "gives its slots up as soon as others wait for them"


def deal_with_idle(at_ms: int) -> None:
    """Warn once; after twice the time take back what is preemptible, if the operator wants it and somebody waits."""
    for job in idle(at_ms):
        for_ms = at_ms - (job.idle_since_ms or at_ms)
        sentence = (
            f"its {amount(job.num_gpus, job.gpu_type)} {'has' if job.num_gpus == 1 else 'have'} been "
            f"below {settings.IDLE_PERCENT} % "
            f"for {format_duration_ms(for_ms)}"
        )
        if not job.idle_told:
            _warn(job, sentence, at_ms)
        elif settings.IDLE_RECLAIM and for_ms >= _taken_back_after_ms() and (others := _wanted_by(job)):
            _take_back(job, others, f"{sentence}; {others.id} of {others.team_id} waits for them", at_ms)


def _taken_back_after_ms() -> int:
    return int(2 * settings.IDLE_MINUTES * MINUTE_MS)


def _wanted_by(job: Job) -> Job | None:
    """The first in the queue for its type; None also where it may not be stopped."""
    if not job.spec["preemptible"]:
        return None
    waiting = Job.objects.filter(state__in=list(WAITING), gpu_type=job.gpu_type).exclude(id=job.id)
    return queries.in_queue_order(waiting).first()


@transaction.atomic
def _take_back(job: Job, others: Job, cause: str, at_ms: int) -> None:
    if services.preempt(job.id, cause, at_ms):
        taken_back.send(Job, job=job, for_job=others, at_ms=at_ms)


@transaction.atomic
def _warn(job: Job, sentence: str, at_ms: int) -> None:
    if not Job.objects.filter(id=job.id, idle_told=False).update(idle_told=True):
        return
    live.record(
        "SlotsIdle",
        f"job:{job.id}",
        actor="system",
        team=job.team_id,
        cause=sentence,
        at_ms=at_ms,
        data={"name": job.name, "state": job.state},
        notify=(f"jobs:{job.team_id}", "cluster"),
    )
