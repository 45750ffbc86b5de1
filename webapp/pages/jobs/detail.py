"""The page of one job."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_GET

from platform_core.jobs.stacks import RankStack
from platform_core.jobs.states import TERMINAL, JobState
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries as artifacts
from webapp.base.identity import now_ms
from webapp.checkpoints import orders
from webapp.checkpoints import queries as checkpoint_queries
from webapp.datasets import queries as datasets
from webapp.events.models import Event
from webapp.events.queries import story
from webapp.experiments import queries as experiments
from webapp.experiments import reproduction
from webapp.experiments.reproduction import Reproduction
from webapp.jobs import hangs as hang_services
from webapp.jobs import idle_policy, layouts, logs, lost_members, queries, spares
from webapp.jobs.layouts import LaidOut
from webapp.jobs.models import Job, Spare
from webapp.pages import fragments
from webapp.pages.jobs import checkpoints, corruption, presentation, recovery, run, start
from webapp.pages.jobs import hangs as hang_panel
from webapp.pages.jobs.checkpoints import IntervalPanel, SaveOrder
from webapp.pages.jobs.corruption import CorruptionPanel
from webapp.pages.jobs.hangs import HangNotice
from webapp.pages.jobs.presentation import Answer, Figure, LineageEntry
from webapp.pages.jobs.recovery import RecoveryPanel
from webapp.pages.jobs.start import StartPanel
from webapp.pages.jobs.views import row
from webapp.pages.queue import panels as queue_panels
from webapp.pages.runs import parts
from webapp.registry import queries as registry

TABS = {
    "overview": "Overview",
    "charts": parts.LABELS["charts"],
    "system": parts.LABELS["system"],
    "efficiency": parts.LABELS["efficiency"],
    "logs": "Log",
    "timeline": "Timeline",
    "checkpoints": "Checkpoints",
    "artifacts": parts.LABELS["artifacts"],
    "media": parts.LABELS["media"],
    "notes": parts.LABELS["notes"],
    "spec": "Spec and lineage",
    "lineage": "Related runs",  # what the run was made of stands beside its spec
}
RECENT_EVENTS = 8


@dataclass(frozen=True, slots=True)
class Tab:
    name: str
    label: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """Functions are worked out when a tab shows their value."""

    tab: str
    tabs: tuple[Tab, ...]
    job: dict[str, Any]
    answer: Answer
    show_progress: bool
    figures: Callable[[], tuple[Figure, ...]]
    log_end: Callable[[], list[str]]  # of a job that failed
    hang: Callable[[], HangNotice | None]
    stacks: Callable[[], tuple[RankStack, ...]]  # the newest dumps, by rank
    idle: str  # the warning of slots that are held and not used, or ""
    may: dict[str, Any]
    confirm_cancel: str
    confirm_again: str
    confirm_lost: str

    members: Callable[[], list[dict[str, Any]]]  # the nodes of the last attempt
    shrunk: Callable[[], str]  # why an elastic job has fewer GPUs than it asks for, or ""
    spares: Callable[[], list[Spare]]  # nodes that are kept ready
    layout: Callable[[], LaidOut | None]  # how its ranks are arranged, where the job file says so
    lineage: Callable[[], tuple[LineageEntry, ...]]
    diff: str  # what was not committed when it was submitted
    logs_url: str
    logs_download: str
    events: Callable[[], list[Event]]  # newest first
    recent_events: Callable[[], list[Event]]
    settings: Callable[[], list[tuple[str, str]]]
    spec_text: Callable[[], str]  # the job file that gives this job again

    run: dict[str, Any] | None = None
    first_charts: Any = None
    artifacts: Any = ()
    models: Callable[[], list[str]]  # known to the team, to register a checkpoint under
    checkpoints: Any
    recovery: Callable[[], RecoveryPanel]
    corruption: Callable[[], CorruptionPanel | None]
    start: Callable[[], StartPanel | None]  # of its newest attempt
    reproduction: Callable[[], Reproduction | None]
    interval: Callable[[], IntervalPanel | None]
    retention: Callable[[], str]  # the rule, and the bytes in the store
    order: Callable[[], SaveOrder | None]  # the last order to save now
    saving: Any  # how often it saves, beside how often it should

    # of a job that waits
    waits: bool = False
    should_start: Any = ""
    kept: bool = False  # whether nodes are reserved for it
    kept_on: Any = ""


@login_required
@require_GET
def detail(request: HttpRequest, job_id: str) -> HttpResponse:
    job = queries.job_for(request, job_id)
    tab = request.GET.get("tab", "")
    tab = tab if tab in TABS else "overview"
    page = _page(actor_of(request), job, tab)
    of_job = experiments.run(job.id) if tab in parts.TEMPLATES else None
    if of_job is None:
        tab = "overview" if tab in parts.TEMPLATES else tab
        return fragments.render(request, f"jobs/{tab}.html", page)
    context = {**fragments.values_of(page), **parts.context(request, of_job, tab, "jobs/detail.html")}
    return fragments.render(request, parts.TEMPLATES[tab], context)


def _page(actor: Actor, job: Job, tab: str) -> JobPage:
    now = now_ms()
    owner = job.user.username
    saved = checkpoints.of_job(job)
    checkpoint_ms = saved.pop("checkpoint_ms")
    of_run = run.of_job(job)
    lineage = of_run.pop("lineage", job.lineage)
    events = cache(lambda: story(f"job:{job.id}")[::-1])
    attempt = cache(lambda: layouts.shown_attempt(job))
    percent = presentation.percent(job)
    return JobPage(
        tab=tab,
        tabs=tuple(Tab(name, label, _address(job, name)) for name, label in TABS.items()),
        job=_head(job, now),
        answer=_answer(job, now, actor),
        show_progress=percent is not None and job.state not in TERMINAL,
        figures=lambda: presentation.figures(job, now, checkpoint_ms()),
        log_end=lambda: logs.ending(job.id) if job.state == JobState.FAILED else [],
        hang=lambda: hang_panel.notice(job, now),
        stacks=lambda: hang_services.stacks(job),
        idle=idle_policy.warning(job, now),
        may={
            "cancel": job.state not in TERMINAL and permissions.may(actor, "job.cancel", job.team_id, owner),
            "inspect": job.state in hang_panel.INSPECTED
            and job.stop == "none"
            and permissions.may(actor, "job.cancel", job.team_id, owner),
            "save": orders.accepts(job) and permissions.may(actor, "job.save", job.team_id, owner),
            "pin": permissions.may(actor, "job.save", job.team_id, owner),
            "declare_lost": lambda: lost_members.can_be_lost(actor, job),
            "clone": permissions.may(actor, "job.submit", job.team_id),
            "register": permissions.may(actor, "model.register", job.team_id),
        },
        confirm_cancel=_confirm_cancel(job),
        confirm_again=(
            f"{job.name} is submitted once more as it was, with the same code, data, image, settings and seed. "
            "Its page then says what differs, and whether the metrics agree."
        ),
        confirm_lost=_confirm_lost(job),
        members=lambda: presentation.members(attempt()),
        shrunk=lambda: presentation.shrunk(job, attempt(), now),
        spares=lambda: spares.of_job(job) if job.spec.get("spares") else [],
        layout=cache(lambda: layouts.of_job(job, attempt())),
        lineage=lambda: presentation.lineage_entries(job, lineage, _names(job, lineage)),
        diff=lineage.get("git_diff") or "",
        logs_url=reverse("jobs:log", args=[job.id]),
        logs_download=reverse("jobs:log-download", args=[job.id]),
        events=events,
        recent_events=lambda: events()[:RECENT_EVENTS],
        settings=lambda: presentation.spec_rows(job),
        spec_text=lambda: presentation.spec_text(job),
        recovery=cache(lambda: recovery.of_job(job, now)),
        corruption=lambda: corruption.of_job(job),
        start=cache(lambda: start.of_job(job, now)),
        reproduction=cache(lambda: reproduction.of_job(actor, job)),
        models=lambda: registry.names(job.team_id),
        **saved,
        **of_run,
        **queue_panels.of_job(job),
    )


def _address(job: Job, tab: str) -> str:
    address = reverse("jobs:detail", args=[job.id])
    return address if tab == "overview" else f"{address}?tab={tab}"


def _head(job: Job, now: int) -> dict[str, Any]:
    return {
        **row(job, now),
        "priority": job.priority,
        "attempt": job.attempt,
        "restarts": job.restarts,
        "tags": job.spec["tags"],
    }


def _answer(job: Job, now: int, actor: Actor) -> Answer:
    answer = presentation.answer(job, now)
    tone = "wait" if idle_policy.since(job, now) is not None else answer.tone
    with_names = queries.calling_by_names([answer.detail], actor.sees)
    return Answer(tone, answer.headline, with_names(answer.detail))


def _confirm_lost(job: Job) -> str:
    return (
        f"Only for nodes that will never report that {job.name} has stopped, because their container engine is "
        "gone. Its slots there are freed at once, and these nodes take no work until you resume them. "
        "Check first that its processes are really gone."
    )


def _confirm_cancel(job: Job) -> str:
    resume = (
        f"A clone can resume from the checkpoint of step {job.latest_step:,}."
        if job.latest_checkpoint
        else "It has no checkpoint, so a clone begins at step 1."
    )
    return f"{job.name} stops on all its nodes. Its checkpoints, metrics and log are kept. {resume}"


def _names(job: Job, lineage: dict[str, Any]) -> dict[str, str]:
    """Returns by id what people call the code, the dataset and the checkpoint of a run."""
    names: dict[str, str] = {}
    if code := lineage.get("code"):
        names |= artifacts.names([code], [job.team_id])
    if dataset := lineage.get("dataset"):
        names |= datasets.names([dataset])
    if (start := lineage.get("resume_from")) and (checkpoint := checkpoint_queries.find(start)):
        names[start] = f"{checkpoint.job.name}, step {checkpoint.step:,}"
    return names
