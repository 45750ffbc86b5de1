"""The home page: a person's own work and their teams' headroom; for platform admins the cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from platform_core.experiments.comparison import headline, rule_of
from platform_core.jobs.states import ACTIVE, WAITING, JobState
from platform_core.units import DAY_MS
from webapp.accounts.models import Role
from webapp.accounts.permissions import Actor, may
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.experiments import queries as experiments
from webapp.experiments.comparison import value_of
from webapp.jobs import queries
from webapp.jobs.pace import remaining_ms
from webapp.jobs.queries import MemberLoad
from webapp.nodes import queries as nodes
from webapp.pages import fragments
from webapp.pages.jobs import presentation
from webapp.pages.overview.cluster import cluster
from webapp.pages.wording import slot_noun
from webapp.quotas import queries as quotas
from webapp.quotas.queries import QuotaView
from webapp.scheduling import queries as scheduling
from webapp.scheduling.queue import NOT_CONSIDERED_YET

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from webapp.experiments.models import Run
    from webapp.jobs.models import Job

JOBS_SHOWN = 20
FAILURES_SHOWN = 5
FAILURE_DAYS = 7
RUNS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class WorkLine:
    """A running or pending job."""

    id: str
    name: str
    team: str
    gpus: int
    gpu_type: str
    state: str
    reason: str  # why it is pending
    starts: str  # "in about 12 min", or ""
    percent: int | None
    step: int | None
    total_steps: int | None
    remaining_ms: int | None
    since_ms: int | None


@dataclass(frozen=True, slots=True)
class FailureLine:
    id: str
    name: str
    team: str
    cause: str
    finished_ms: int | None


@dataclass(frozen=True, slots=True)
class RunLine:
    id: str
    name: str
    experiment_id: int
    experiment: str
    metric: str  # the one that the run is judged by, or ""
    rule: str  # lowest, highest or last
    value: float | None
    took_ms: int | None
    finished_ms: int | None


@dataclass(frozen=True, slots=True)
class Headroom:
    """What a team holds of a GPU type and could get at this moment."""

    team: str
    gpu_type: str
    noun: str
    held: int
    guaranteed: int
    maximum: int
    borrowed: int
    free: int  # idle in the cluster and within the maximum


@dataclass(frozen=True, slots=True)
class WorkPage:
    """Fragments: work, failures, runs, headroom."""

    subjects: str
    sentence: Callable[[], str]
    is_new: Callable[[], bool]  # has never submitted a job
    server: str
    may: dict[str, bool]
    jobs: Callable[[], list[WorkLine]]
    jobs_more: Callable[[], int]
    failures: Callable[[], list[FailureLine]]
    failure_days: int
    runs: Callable[[], list[RunLine]]
    teams: tuple[str, ...]
    headroom: Callable[[], list[Headroom]]
    leads: tuple[str, ...]  # the teams that the reader leads
    members: Callable[[], list[MemberLoad]]


@login_required
@require_GET
def home(request: HttpRequest) -> HttpResponse:
    return cluster(request) if actor_of(request).is_admin else work(request)


@login_required
@require_GET
def work(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    mine = queries.visible(actor.sees).filter(user=request.user.pk)
    now = now_ms()
    counts = cache(lambda: queries.count_by_state(mine))
    leads = tuple(team for team, role in sorted(actor.roles.items()) if role == Role.LEAD)
    page = WorkPage(
        subjects=" ".join(f"jobs:{team}" for team in actor.teams),
        sentence=lambda: _sentence(counts(), _failed_since(mine, now - DAY_MS).count()),
        is_new=lambda: not counts(),
        server=settings.PUBLIC_URL,
        may={"submit": actor.is_admin or any(may(actor, "job.submit", team) for team in actor.teams)},
        jobs=lambda: _jobs(mine, actor, now),
        jobs_more=lambda: max(0, _sum(counts(), [*ACTIVE, *WAITING]) - JOBS_SHOWN),
        failures=lambda: [
            FailureLine(job.id, job.name, job.team_id, job.reason, job.finished_ms)
            for job in _failed_since(mine, now - FAILURE_DAYS * DAY_MS)[:FAILURES_SHOWN]
        ],
        failure_days=FAILURE_DAYS,
        runs=lambda: [_run(run) for run in experiments.newest_runs(actor.sees, actor.username, RUNS_SHOWN)],
        teams=actor.teams,
        headroom=lambda: headroom(actor.teams),
        leads=leads,
        members=lambda: queries.load_by_member(leads),
    )
    return fragments.render(request, "overview/work.html", page)


def _sentence(counts: dict[str, int], failed: int) -> str:
    """ "3 running, 2 pending, 1 failed in the last 24 h"."""
    running, pending = _sum(counts, ACTIVE), _sum(counts, WAITING)
    parts = [f"{running} running"] if running else []
    parts += [f"{pending} pending"] if pending else []
    parts = parts or ["Nothing running or pending"]
    return ", ".join([*parts, f"{failed} failed in the last 24 h"] if failed else parts)


def _sum(counts: dict[str, int], states: Sequence[JobState] | frozenset[JobState]) -> int:
    return sum(counts.get(state, 0) for state in states)


def _failed_since(jobs: QuerySet[Job], since_ms: int) -> QuerySet[Job]:
    return jobs.filter(state=JobState.FAILED, finished_ms__gte=since_ms).order_by("-finished_ms", "-id")


def _jobs(mine: QuerySet[Job], actor: Actor, now: int) -> list[WorkLine]:
    """Running ones first, then the pending in the order of the queue."""
    running = mine.filter(state__in=list(ACTIVE))[:JOBS_SHOWN]
    pending = queries.in_queue_order(mine)[:JOBS_SHOWN]
    shown = [*running, *pending][:JOBS_SHOWN]
    forecasts = scheduling.forecasts([job.id for job in shown if job.state in WAITING])
    named = queries.calling_by_names([job.wait_sentence for job in shown], actor.sees)
    return [
        WorkLine(
            id=job.id,
            name=job.name,
            team=job.team_id,
            gpus=job.num_gpus,
            gpu_type=job.gpu_type,
            state="stopping" if job.stop != "none" else job.state,
            reason=named(job.wait_sentence or NOT_CONSIDERED_YET) if job.state in WAITING else "",
            starts=scheduling.start_in_words(job, forecasts.get(job.id), now),
            percent=presentation.percent(job),
            step=job.step,
            total_steps=job.total_steps,
            remaining_ms=remaining_ms(job) if job.state in ACTIVE else None,
            since_ms=job.waiting_since_ms if job.state in WAITING else job.started_ms,
        )
        for job in shown
    ]


def _run(run: Run) -> RunLine:
    metric = headline(sorted(run.summaries))
    ends = run.started_ms is not None and run.ended_ms is not None
    return RunLine(
        id=run.id,
        name=run.name,
        experiment_id=run.experiment_id,
        experiment=run.experiment.name,
        metric=metric,
        rule=rule_of(metric) if metric else "",
        value=value_of(run, metric) if metric else None,
        took_ms=(run.ended_ms or 0) - (run.started_ms or 0) if ends else None,
        finished_ms=run.ended_ms,
    )


def headroom(teams: Sequence[str]) -> list[Headroom]:
    views = quotas.quotas_of_teams(teams) if teams else ()
    capacity = nodes.capacity() if views else {}
    idle = {gpu_type: found.free for gpu_type, found in capacity.items()}
    return [_headroom(view, idle.get(view.gpu_type, 0)) for view in views]


def _headroom(view: QuotaView, idle: int) -> Headroom:
    return Headroom(
        team=view.team,
        gpu_type=view.gpu_type,
        noun=slot_noun([view.gpu_type]),
        held=view.held,
        guaranteed=view.guaranteed,
        maximum=view.maximum,
        borrowed=view.borrowed,
        free=min(idle, view.headroom),
    )
