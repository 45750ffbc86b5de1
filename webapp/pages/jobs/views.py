"""The pages of jobs: the list, and one job with its log."""

from functools import cache
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from platform_core.jobs.states import TERMINAL, JobState
from webapp.accounts import permissions
from webapp.accounts.queries import actor_of
from webapp.accounts.queries import teams as team_views
from webapp.base.identity import now_ms
from webapp.base.parsing import whole_number
from webapp.events.queries import story
from webapp.jobs import idle_policy, logs, lost_members, queries, services
from webapp.jobs.models import Attempt, Job
from webapp.nodes import queries as cluster_queries
from webapp.pages import fragments
from webapp.pages.jobs import checkpoints, presentation, run
from webapp.pages.queue import panels as queue_panels
from webapp.registry import queries as registry

PAGE = 50
_STATES = ("", "waiting", "active", "succeeded", "failed", "cancelled")
_LABELS = {"": "All", "active": "Running"}


@login_required
@require_GET
def job_list(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    filters = {name: request.GET.get(name, "") for name in ("q", "state", "team", "user", "project")}
    mine = queries.visible(actor.sees)
    found = queries.filtered(
        mine, state=filters["state"], team=filters["team"], user=filters["user"], search=filters["q"]
    )
    if filters["project"]:
        found = found.filter(project=filters["project"])
    number = request.GET.get("after") or request.GET.get("before") or "1"
    page = Paginator(found, PAGE).get_page(number)
    now = now_ms()
    counts = cache(lambda: queries.count_by_state(mine))
    teams = [view.slug for view in team_views(actor.sees)]
    context = {
        "subjects": " ".join(f"jobs:{slug}" for slug in teams),
        "sentence": lambda: _sentence(counts()),
        "filters": filters,
        "filtered": any(filters.values()),
        "states": lambda: [
            {"value": value, "label": _LABELS.get(value, value.title()), "count": _count(counts(), value)}
            for value in _STATES
        ],
        "teams": teams,
        "users": lambda: queries.submitters(mine),
        "jobs": _named([row(job, now) for job in page], actor),
        "pager": {
            "next": page.next_page_number() if page.has_next() else "",
            "previous": page.previous_page_number() if page.has_previous() else "",
        },
    }
    return fragments.render(request, "jobs/list.html", context)


def _named(rows: list[dict[str, Any]], actor: permissions.Actor) -> list[dict[str, Any]]:
    """Whom a job waits for is called by the name, for those who may see it."""
    named = queries.calling_by_names([each["note"] for each in rows], actor.sees)
    return [each | {"note": named(each["note"])} for each in rows]


def _sentence(counts: dict[str, int]) -> str:
    capacities = cluster_queries.capacity().values()
    slots = sum(capacity.slots for capacity in capacities)
    free = sum(capacity.free for capacity in capacities)
    running, waiting = _count(counts, "active"), _count(counts, "waiting")
    return f"{running} run, {waiting} wait. {free} of {slots} slots are free."


def _count(counts: dict[str, int], value: str) -> int:
    if value == "":
        return sum(counts.values())
    return sum(counts.get(state, 0) for state in queries.states_of(value))


def row(job: Job, now: int) -> dict[str, Any]:
    """One line of the list."""
    return {
        "id": job.id,
        "name": job.name,
        "state": job.state,
        "stopping": job.stop != "none" and job.state not in TERMINAL,
        "team": job.team_id,
        "user": job.user.username,
        "project": job.project,
        "gpus": job.num_gpus,
        "gpu_type": job.gpu_type,
        "submitted_ms": job.submitted_ms,
        "started_ms": job.started_ms,
        "finished_ms": job.finished_ms,
        "elapsed_ms": presentation.elapsed_ms(job, now) if job.finished_ms else None,
        "step": job.step,
        "step_total": job.total_steps,
        "percent": presentation.percent(job),
        "loss": job.loss,
        "losses": [],
        "idle_since_ms": idle_policy.since(job, now),
        "note": job.wait_sentence if job.state in queries.states_of("waiting") else job.reason,
    }


@login_required
@require_GET
def detail(request: HttpRequest, job_id: str) -> HttpResponse:
    job = queries.job_for(request, job_id)
    actor = actor_of(request)
    now = now_ms()
    owner = job.user.username
    extra = fragments.when_asked(
        {"charts": [], "run": None, "lineage": job.lineage, "artifacts": []}
        | checkpoints.of_job(job)
        | run.of_job(job)
        | queue_panels.of_job(job)
        | {"models": lambda: registry.names(job.team_id)}
    )
    events = cache(lambda: story(f"job:{job.id}")[::-1])
    context = {
        "tab": request.GET.get("tab", "overview"),
        "job": {
            **row(job, now),
            "priority": job.priority,
            "checkpoint_step": job.latest_step if job.latest_checkpoint else None,
            "attempt": job.attempt,
            "restarts": job.restarts,
            "tags": job.spec["tags"],
        },
        "answer": _answer(job, now, actor),
        "log_end": lambda: logs.ending(job.id) if job.state == JobState.FAILED else [],
        "idle": idle_policy.warning(job, now),
        "kpis": lambda: presentation.kpis(job, now, extra["checkpoint_ms"]()),
        "members": lambda: presentation.members(_living(job)),
        "made_of": presentation.made_of(job, extra["lineage"]),
        "diff": extra["lineage"].get("git_diff") or "",
        "logs_url": reverse("jobs:log", args=[job.id]),
        "logs_download": reverse("jobs:log-download", args=[job.id]),
        "events": events,
        "recent_events": lambda: events()[:10],
        "spec": lambda: presentation.spec_rows(job),
        "spec_text": lambda: presentation.spec_text(job),
        "may": {
            "cancel": job.state not in TERMINAL and permissions.may(actor, "job.cancel", job.team_id, owner),
            "declare_lost": lambda: lost_members.can_be_lost(actor, job),
            "clone": permissions.may(actor, "job.submit", job.team_id),
            "register": permissions.may(actor, "model.register", job.team_id),
        },
        **extra,
    }
    return fragments.render(request, "jobs/detail.html", context)


def _answer(job: Job, now: int, actor: permissions.Actor) -> dict[str, str]:
    answer = presentation.answer(job, now)
    if idle_policy.since(job, now) is not None:
        answer["tone"] = "wait"
    return answer | {"detail": queries.calling_by_names([answer["detail"]], actor.sees)(answer["detail"])}


def _living(job: Job) -> Attempt | None:
    """The attempt whose nodes are shown: the one that runs, or that the job ended with."""
    newest = next(iter(queries.attempts(job.id)), None)
    ended = newest is not None and newest.ended_ms is not None
    return None if ended and job.state not in TERMINAL else newest


@login_required
@require_POST
def cancel(request: HttpRequest, job_id: str) -> HttpResponse:
    queries.job_for(request, job_id)
    services.cancel(actor_of(request), job_id)
    messages.success(request, "The job is being cancelled; what runs has time to save first.")
    return redirect("jobs:detail", job_id=job_id)


@login_required
@require_POST
def lost(request: HttpRequest, job_id: str) -> HttpResponse:
    queries.job_for(request, job_id)
    nodes = lost_members.declare_lost(actor_of(request), job_id, request.POST.get("cause", ""))
    messages.success(request, lost_members.in_words(nodes))
    return redirect("jobs:detail", job_id=job_id)


@login_required
@require_GET
def log_lines(request: HttpRequest, job_id: str) -> HttpResponse:
    """Lines after a cursor, for the log view."""
    job = queries.job_for(request, job_id)
    after = whole_number(request.GET.get("after", "") or "0", "after")
    found = logs.read(job.id, after=after)
    return JsonResponse({"lines": found.lines, "next": found.after, "more": found.after != after})


@login_required
@require_GET
def log_download(request: HttpRequest, job_id: str) -> StreamingHttpResponse:
    """The whole log as text, rank by rank."""
    job = queries.job_for(request, job_id)
    response = StreamingHttpResponse(logs.whole(job.id), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{job.id}.log"'
    return response
