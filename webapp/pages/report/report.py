"""The report on the health of the cluster: how full, how long people waited, what was paid for and not used."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.template.loader import render_to_string

from platform_core.efficiency.waste import Use as JobUse
from platform_core.efficiency.waste import totals
from platform_core.scheduling.metrics.job_mix import Class, mix
from platform_core.scheduling.metrics.waits_by_size import Waits, by_size
from webapp.accounts import mailing
from webapp.base.identity import now_ms
from webapp.experiments import usage
from webapp.jobs import idle_policy, measures, recoveries
from webapp.jobs import queries as jobs
from webapp.jobs.measures import Use
from webapp.nodes import queries as clusters
from webapp.pages.figures import Figure
from webapp.pages.jobs.recovery import LABELS
from webapp.pages.report import figures, weeks
from webapp.pages.report.weeks import WEEK_MS
from webapp.pages.service_levels.presentation import LevelRow, rows
from webapp.quotas import queries as quotas
from webapp.scheduling import queries as scheduling
from webapp.service_levels import queries as service_levels

UNDER_USED_PERCENT = 50
HARDLY_BUSY_PERCENT = 50
HARDLY_BUSY_SHOWN = 10


@dataclass(frozen=True, slots=True)
class TeamUse:
    """`percent`: of what the guarantee would have given in the measured time; None without a guarantee."""

    team: str
    gpu_type: str
    gpu_ms: int
    micro_dollars: int
    guaranteed: int
    percent: float | None
    lost_gpu_ms: int  # when its jobs were stopped for others
    caused_gpu_ms: int  # when others were stopped for its jobs
    waiting_gpu_ms: int  # for which its jobs that wait now may run
    mfu: float | None  # in percent, weighted by GPU time

    @property
    def under_used(self) -> bool:
        return self.percent is not None and self.percent < UNDER_USED_PERCENT


@dataclass(frozen=True, slots=True)
class Report:
    from_ms: int
    to_ms: int
    measured_ms: int  # for how long of the period the platform has existed
    figures: tuple[Figure, ...]  # with what they were in the period before
    types: tuple[Use, ...]
    levels: tuple[LevelRow, ...]  # of the whole cluster, as they stood at its end
    waits: tuple[Waits, ...]
    mix: tuple[Class, ...]  # of the jobs that ended
    unstarted: tuple[Waits, ...]  # of those that have not started yet, so far; `waits` is without them
    teams: tuple[TeamUse, ...]  # dearest first
    recovery: tuple[tuple[str, int], ...]  # phase and its mean in ms, of the restarts that reached a step
    failures: tuple[tuple[str, int], ...]  # hostname, attempts that it made fail
    idle: tuple[dict[str, Any], ...]  # running jobs whose slots idle now, and what follows from it
    hardly_busy: tuple[dict[str, Any], ...]  # jobs of the period, those first that held the most without use

    @property
    def is_whole(self) -> bool:
        return self.measured_ms == self.to_ms - self.from_ms


def make(team_slugs: list[str] | None, to_ms: int, *, is_over: bool = False) -> Report:
    """What these teams may see of the week until then; None is all of it. Utilisation, waits and failures are
    everybody's. What idles is told of now alone, so not of a week that is over."""
    from_ms = to_ms - WEEK_MS
    before_ms = from_ms - WEEK_MS
    seen = None if team_slugs is None else set(team_slugs)
    work = usage.uses(seen, from_ms, to_ms)
    hostnames = {node.id: node.hostname for node in clusters.summaries()}
    return Report(
        from_ms,
        to_ms,
        measured_ms=_measured_ms(from_ms, to_ms),
        figures=figures.compared(
            figures.of(from_ms, to_ms, seen, work),
            figures.of(before_ms, from_ms, seen, usage.uses(seen, before_ms, from_ms)),
        ),
        types=measures.use_by_type(from_ms, to_ms),
        levels=tuple(rows(service_levels.levels(to_ms))),
        waits=by_size(jobs.first_waits(from_ms, to_ms)),
        mix=mix(measures.ended_runs(from_ms, to_ms)),
        unstarted=by_size(jobs.waits_without_a_start(to_ms)),
        teams=tuple(_teams(from_ms, to_ms, seen, work, is_over)),
        recovery=_recovery(from_ms, to_ms),
        failures=tuple(
            (hostnames.get(node, node), count) for node, count in jobs.failures_by_node(from_ms, to_ms).items()
        ),
        idle=tuple(
            {
                "id": job.id, "name": job.name, "team": job.team_id, "user": job.user.username, "gpus": job.num_gpus,
                "idle_ms": to_ms - (job.idle_since_ms or to_ms), "follows": idle_policy.follows(job, to_ms),
            }
            for job in ([] if is_over else idle_policy.idle(to_ms, seen))
        ),
        hardly_busy=tuple(_hardly_busy(from_ms, to_ms, seen)[:HARDLY_BUSY_SHOWN]),
    )  # fmt: skip


def _hardly_busy(from_ms: int, to_ms: int, seen: set[str] | None) -> list[dict[str, Any]]:
    idle = [
        job
        for job in idle_policy.hardly_busy(from_ms, to_ms, HARDLY_BUSY_PERCENT / 100)
        if seen is None or job.team_id in seen
    ]
    costs = quotas.costs_of_jobs([job.id for job in idle], to_ms)
    lines = [
        {
            "id": job.id, "name": job.name, "team": job.team_id, "user": job.user.username, "gpus": job.num_gpus,
            "percent": 100 * job.busy_sum / job.busy_samples,
            "unused_gpu_ms": round(costs[job.id].gpu_ms * (1 - job.busy_sum / job.busy_samples)),
        }
        for job in idle
        if job.id in costs
    ]  # fmt: skip
    return sorted(lines, key=lambda line: (-line["unused_gpu_ms"], line["id"]))


def _recovery(from_ms: int, to_ms: int) -> tuple[tuple[str, int], ...]:
    mean = recoveries.of_period(from_ms, to_ms).mean
    if not mean.complete:
        return ()
    return tuple((label, getattr(mean, name) or 0) for name, label in LABELS.items())


def _measured_ms(from_ms: int, to_ms: int) -> int:
    begins = [begin for begin in (figures.first_sample_ms(), jobs.first_submitted_ms()) if begin is not None]
    return max(0, to_ms - max(from_ms, min(begins, default=to_ms)))


def _teams(
    from_ms: int, to_ms: int, seen: set[str] | None, work: Iterable[JobUse], is_over: bool
) -> list[TeamUse]:
    used, guarantees = quotas.use_by_team(from_ms, to_ms), quotas.guarantees()
    losses, nothing = scheduling.losses(from_ms, to_ms), scheduling.Losses(0, 0)
    waiting = {} if is_over else measures.waiting_gpu_ms()
    shares = {each.key: each.mfu for each in totals(work, _team_and_type)}
    measured_ms = _measured_ms(from_ms, to_ms)
    uses = []
    for key in sorted({*used, *guarantees, *losses, *waiting}):
        if seen is not None and key[0] not in seen:
            continue
        gpu_ms, dollars = used.get(key, (0, 0))
        guaranteed, lost = guarantees.get(key, 0), losses.get(key, nothing)
        due, mfu = guaranteed * measured_ms, shares.get(" ".join(key))
        uses.append(
            TeamUse(
                *key,
                gpu_ms=gpu_ms,
                micro_dollars=dollars,
                guaranteed=guaranteed,
                percent=100 * gpu_ms / due if due else None,
                lost_gpu_ms=lost.lost_gpu_ms,
                caused_gpu_ms=lost.caused_gpu_ms,
                waiting_gpu_ms=waiting.get(key, 0),
                mfu=None if mfu is None else 100 * mfu,
            )
        )
    return sorted(uses, key=lambda use: (-use.micro_dollars, -use.gpu_ms, use.team))


def _team_and_type(job: JobUse) -> str:
    return f"{job.team} {job.gpu_type}"


def mail() -> int:
    """To everybody whom the operator named, once in a week; how many they are."""
    if not settings.REPORT_RECIPIENTS:
        return 0
    now = now_ms()
    text = render_to_string(
        "report/mail.txt",
        {
            "report": make(None, now),
            "least_ms": idle_policy.LEAST_MS,
            "url": f"{settings.PUBLIC_URL}/report/",
        },
    )
    key = f"report:{weeks.of(now).name}"
    mailing.write_to(settings.REPORT_RECIPIENTS, key, "Trainmaster: the week of the cluster", text)
    return len(settings.REPORT_RECIPIENTS)
