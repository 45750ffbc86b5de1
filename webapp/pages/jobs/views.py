"""The list of jobs, what people do with one, and its log."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from platform_core.jobs.states import TERMINAL
from platform_core.units import format_bytes, plural
from webapp.accounts import permissions
from webapp.accounts.queries import actor_of
from webapp.accounts.queries import teams as team_views
from webapp.base.downloads import streamed
from webapp.base.identity import now_ms
from webapp.base.parsing import whole_number
from webapp.checkpoints import deletion, orders, pins
from webapp.jobs import idle_policy, logs, lost_members, queries, repetition, services
from webapp.jobs.models import Job
from webapp.nodes import queries as cluster_queries
from webapp.pages import fragments
from webapp.pages.jobs import presentation
from webapp.pages.paging import Pager, paged

PAGE = 50
_STATES = ("", "waiting", "active", "succeeded", "failed", "cancelled")
_LABELS = {"": "All", "active": "Running", "waiting": "Pending"}


@dataclass(frozen=True, slots=True)
class JobListPage:
    subjects: str  # of the live socket: "jobs:vision jobs:nlp"
    headline: Callable[[], str]
    filters: dict[str, str]  # q, state, team, user, project as given
    filtered: bool
    states: Callable[[], list[dict[str, Any]]]  # value, label, count
    teams: list[str]
    users: Callable[[], list[str]]
    jobs: list[dict[str, Any]]  # see row()
    pager: Pager


@login_required
@require_GET
def job_list(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    filters = {name: request.GET.get(name, "") for name in ("q", "state", "team", "user", "project")}
    mine = queries.visible(actor.sees)
    matching = queries.filtered(
        mine, state=filters["state"], team=filters["team"], user=filters["user"], search=filters["q"]
    )
    if filters["project"]:
        matching = matching.filter(project=filters["project"])
    shown, pager = paged(request, matching, PAGE)
    now = now_ms()
    counts = cache(lambda: queries.count_by_state(mine))
    teams = [view.slug for view in team_views(actor.sees)]
    listing = JobListPage(
        subjects=" ".join(f"jobs:{slug}" for slug in teams),
        headline=lambda: _headline(counts()),
        filters=filters,
        filtered=any(filters.values()),
        states=lambda: [
            {"value": value, "label": _LABELS.get(value, value.title()), "count": _count(counts(), value)}
            for value in _STATES
        ],
        teams=teams,
        users=lambda: queries.submitters(mine),
        jobs=_named([row(job, now) for job in shown], actor),
        pager=pager,
    )
    return fragments.render(request, "jobs/list.html", listing)


def _named(rows: list[dict[str, Any]], actor: permissions.Actor) -> list[dict[str, Any]]:
    """Whom a job waits for is called by the name, for those who may see it."""
    with_names = queries.calling_by_names([job["note"] for job in rows], actor.sees)
    return [job | {"note": with_names(job["note"])} for job in rows]


def _headline(counts: dict[str, int]) -> str:
    capacities = cluster_queries.capacity().values()
    slots = sum(capacity.slots for capacity in capacities)
    free = sum(capacity.free for capacity in capacities)
    running, waiting = _count(counts, "active"), _count(counts, "waiting")
    return f"{running} running, {waiting} pending; {free} of {plural(slots, 'slot')} free"


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
@require_POST
def cancel(request: HttpRequest, job_id: str) -> HttpResponse:
    queries.job_for(request, job_id)
    services.cancel(actor_of(request), job_id)
    messages.success(
        request, "The job is being cancelled; its processes have time to save a checkpoint first."
    )
    return redirect("jobs:detail", job_id=job_id)


@login_required
@require_POST
def save(request: HttpRequest, job_id: str) -> HttpResponse:
    queries.job_for(request, job_id)
    orders.save_now(actor_of(request), job_id)
    messages.success(request, "A checkpoint is ordered; the script saves when it asks for it the next time.")
    return redirect(f"{reverse('jobs:detail', args=[job_id])}?tab=checkpoints")


@login_required
@require_POST
def pin(request: HttpRequest, job_id: str, checkpoint_id: str) -> HttpResponse:
    queries.job_for(request, job_id)
    pinned = bool(request.POST.get("pinned"))
    row = pins.pin(actor_of(request), job_id, checkpoint_id, pinned=pinned)
    told = "is pinned; retention keeps it" if pinned else "is not pinned any more"
    messages.success(request, f"The checkpoint of step {row.step:,} {told}.")
    return redirect(f"{reverse('jobs:detail', args=[job_id])}?tab=checkpoints")


@login_required
@require_POST
def delete_checkpoint(request: HttpRequest, job_id: str, checkpoint_id: str) -> HttpResponse:
    queries.job_for(request, job_id)
    done = deletion.delete(actor_of(request), job_id, checkpoint_id)
    freed = format_bytes(done.freed_bytes)
    messages.success(
        request, f"The checkpoint of step {done.checkpoint.step:,} is deleted: {freed} leave the store."
    )
    return redirect(f"{reverse('jobs:detail', args=[job_id])}?tab=checkpoints")


@login_required
@require_POST
def run_again(request: HttpRequest, job_id: str) -> HttpResponse:
    job = repetition.run_again(actor_of(request), queries.job_for(request, job_id).id)
    messages.success(request, "Submitted once more as it was; Spec and lineage compares the two runs.")
    return redirect("jobs:detail", job_id=job.id)


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
    page = logs.read(job.id, after=after)
    return JsonResponse({"lines": page.lines, "next": page.after, "more": page.after != after})


@login_required
@require_GET
def log_download(request: HttpRequest, job_id: str) -> StreamingHttpResponse:
    """The whole log as text, rank by rank."""
    job = queries.job_for(request, job_id)
    response = StreamingHttpResponse(
        streamed(request, logs.whole(job.id)), content_type="text/plain; charset=utf-8"
    )
    response["Content-Disposition"] = f'attachment; filename="{job.id}.log"'
    return response
