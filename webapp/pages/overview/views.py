"""The overview, the audit log and the search: pages that look across all apps."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_GET

from platform_core.cluster.health import NodeState
from platform_core.jobs.states import ACTIVE
from platform_core.units import plural
from webapp.accounts.permissions import Actor, may
from webapp.accounts.queries import actor_of
from webapp.accounts.queries import teams as team_views
from webapp.base.identity import now_ms
from webapp.base.parsing import whole_number
from webapp.events.queries import kinds, recent
from webapp.experiments import queries as experiments
from webapp.jobs import idle_policy
from webapp.jobs import queries as job_queries
from webapp.jobs.models import UtilisationSample
from webapp.nodes import queries as clusters
from webapp.pages import fragments, line_chart
from webapp.pages.overview import cluster_map
from webapp.registry import queries as registry
from webapp.scheduling import queries as scheduling

if TYPE_CHECKING:
    from webapp.events.models import Event
    from webapp.jobs.models import Job

WAITING_SHOWN = 8
EVENTS_SHOWN = 12
SINGLE_STEPS = (
    "MemberAssigned", "MemberPreparing", "MemberRunning", "CheckpointStarted", "CheckpointSaved",
    "WorkerReceiving", "WorkerComplete", "WorkerEvicted",
    "DeploymentDownloading", "DeploymentDistributing", "DeploymentVerifying",
)  # fmt: skip
ENDS_OF_MEMBERS = ("MemberExited", "MemberLost")  # the last of them is the end of the job
AUDIT_PAGE = 100
SEARCH_SHOWN = 10
BUSY_MS = 24 * 3_600_000
BUSY_POINTS = 200


@login_required
@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    built = cache(lambda: cluster_map.build(actor))
    waiting = job_queries.in_queue_order(job_queries.visible(actor.sees))
    own_waiting = cache(waiting.count)
    context = {
        "subjects": lambda: " ".join(["cluster", *(f"jobs:{view.slug}" for view in team_views(actor.sees))]),
        "cluster": lambda: _cluster(built()),
        "join_command": clusters.join_command,
        "may": {"join": may(actor, "node.operate")},
        "kpis": lambda: _kpis(actor, built()),
        "racks": lambda: built()["racks"],
        "legend": lambda: built()["legend"],
        "waiting": lambda: _waiting_lines(list(waiting[:WAITING_SHOWN]), actor),
        "waiting_more": lambda: max(0, own_waiting() - WAITING_SHOWN),
        "waiting_elsewhere": lambda: job_queries.waiting_count(None) - own_waiting(),
        "idle": lambda: _idle(actor, now_ms()),
        "busy": lambda: busy(now_ms()),
        "events": lambda: _news(actor),
    }
    return fragments.render(request, "overview/overview.html", context)


def _idle(actor: Actor, now: int) -> list[dict[str, Any]]:
    """What people hold without use, the longest first: they are to learn of it where they look."""
    return [
        {
            **_shown(job),
            "since_ms": job.idle_since_ms,
            "follows": idle_policy.follows(job, now),
        }
        for job in idle_policy.idle(now, actor.sees)
    ]


def _shown(job: Job) -> dict[str, Any]:
    """By what a job is known in a list."""
    return {
        "id": job.id,
        "name": job.name,
        "team": job.team_id,
        "user": job.user.username,
        "gpus": job.num_gpus,
    }


def _news(actor: Actor) -> list[Event]:
    """What a person would tell another: the single steps of ranks, checkpoints and workers stand on their own pages."""
    events = recent(actor.sees, limit=5 * EVENTS_SHOWN, without=SINGLE_STEPS)
    told = [e for e in events if e.kind not in ENDS_OF_MEMBERS or e.data.get("state") not in ACTIVE]
    return told[:EVENTS_SHOWN]


def _cluster(built: dict[str, Any]) -> dict[str, str]:
    nodes = built["nodes"]
    if not nodes:
        return {"state": "empty", "sentence": "No node has joined yet."}
    away = [node for node in nodes if node.state in (NodeState.LOST, NodeState.SUSPECT)]
    racks = len(built["racks"])
    sentence = f"{plural(built['slots'], 'slot')} on {plural(len(nodes), 'node')} in {plural(racks, 'rack')}"
    if away:
        named = ", ".join(node.hostname for node in away[:3])
        sentence += f" · {len(away)} not heard from: {named}"
    return {"state": "degraded" if away else "healthy", "sentence": sentence}


def _kpis(actor: Actor, built: dict[str, Any]) -> list[dict[str, str]]:
    every, seen = (job_queries.count_by_state(job_queries.visible(teams)) for teams in (None, actor.sees))
    slots = built["slots"]
    share = f"{100 * built['held'] / slots:.0f} %" if slots else "–"
    return [
        {"label": "Slots held", "value": f"{built['held']} of {slots}", "note": share},
        _utilisation(),
        {"label": "Running", **_jobs(every, seen, "active", actor)},
        {"label": "Waiting", **_jobs(every, seen, "waiting", actor)},
        {"label": "Nodes", "value": str(len(built["nodes"])), "note": _node_note(built["nodes"])},
    ]


def _jobs(every: dict[str, int], seen: dict[str, int], group: str, actor: Actor) -> dict[str, str]:
    """Of the whole cluster, and how many of them the reader may look at."""
    total, own = (
        sum(counts.get(state, 0) for state in job_queries.states_of(group)) for counts in (every, seen)
    )
    return {"value": str(total), "note": "of all teams" if actor.sees is None else f"{own} of your teams"}


def _utilisation() -> dict[str, str]:
    """Of all slots that are held, and of each type by its name."""
    newest = UtilisationSample.objects.order_by("-at_ms").values("at_ms")[:1]
    rows = UtilisationSample.objects.filter(at_ms=newest).exclude(utilisation=None).order_by("gpu_type")
    types = [(row.gpu_type, row.held, row.utilisation or 0.0) for row in rows]
    held = sum(slots for _, slots, _ in types)
    mean = f"{_percent(sum(slots * busy for _, slots, busy in types), held):.0f} %" if held else "–"
    by_type = " · ".join(f"{gpu_type} {100 * busy:.0f} %" for gpu_type, _, busy in types)
    return {"label": "Utilisation", "value": mean, "note": by_type or "of the slots held"}


def _node_note(nodes: Any) -> str:
    others: dict[str, int] = {}
    for node in nodes:
        if node.state is not NodeState.READY:
            others[node.state] = others.get(node.state, 0) + 1
    return ", ".join(f"{count} {state}" for state, count in sorted(others.items())) or "all ready"


def _waiting_lines(jobs: list[Job], actor: Actor) -> list[dict[str, Any]]:
    named = job_queries.calling_by_names([job.wait_sentence for job in jobs], actor.sees)
    starts = scheduling.starts([job.id for job in jobs], now_ms())
    return [
        {
            **_shown(job),
            "priority": job.priority,
            "why": named(job.wait_sentence) or "The scheduler looks at it within seconds.",
            "starts": starts.get(job.id, ""),
        }
        for job in jobs
    ]


def busy(now: int) -> line_chart.LineChart | None:
    """Slots held and their utilisation over the last day, in percent."""
    rows = list(
        UtilisationSample.objects.filter(at_ms__gte=now - BUSY_MS)
        .order_by("at_ms")
        .values_list("at_ms", "slots", "held", "utilisation")
    )
    moments: dict[int, list[tuple[int, int, float | None]]] = {}
    for at_ms, slots, held, utilisation in rows:
        moments.setdefault(at_ms, []).append((slots, held, utilisation))
    times = sorted(moments)
    times = times[:: max(1, len(times) // BUSY_POINTS)]
    held_share = [_percent(sum(m[1] for m in moments[t]), sum(m[0] for m in moments[t])) for t in times]
    used = [
        _percent(sum(m[1] * (m[2] or 0) for m in moments[t]), sum(m[0] for m in moments[t])) for t in times
    ]
    return line_chart.of_percentages(times, {"held": held_share, "busy": used})


def _percent(part: float, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0


@login_required
@require_GET
def audit(request: HttpRequest) -> HttpResponse:
    """Everything that was done, to whom it may concern: a team's events to its leads and members, all to admins."""
    actor = actor_of(request)
    teams = None if actor.is_admin else [team for team in actor.teams if may(actor, "audit.view", team)]
    filters = {name: request.GET.get(name, "").strip() for name in ("kind", "actor", "subject")}
    cursor = request.GET.get("after", "")
    events = recent(
        teams, before=whole_number(cursor, "after") if cursor else None, limit=AUDIT_PAGE + 1, **filters
    )
    more = len(events) > AUDIT_PAGE
    context = {
        "events": events[:AUDIT_PAGE],
        "filters": filters,
        "filtered": any(filters.values()),
        "kinds": kinds,
        "pager": {"next": events[AUDIT_PAGE - 1].id if more else "", "previous": ""},
    }
    return fragments.render(request, "overview/audit.html", context)


@login_required
@require_GET
def search(request: HttpRequest) -> HttpResponse:
    """Jobs, experiments and models by name or id."""
    actor = actor_of(request)
    words = request.GET.get("q", "").strip()
    found = [group for group in _found(actor, words) if group["items"]] if words else []
    return fragments.render(request, "overview/search.html", {"q": words, "found": found})


def _found(actor: Actor, words: str) -> list[dict[str, Any]]:
    jobs = job_queries.filtered(job_queries.visible(actor.sees), search=words)[:SEARCH_SHOWN]
    runs_of = experiments.visible(actor.sees).filter(name__icontains=words)[:SEARCH_SHOWN]
    models = [model for model in registry.models(actor.sees) if words.lower() in model.name][:SEARCH_SHOWN]
    nodes = [node for node in clusters.summaries() if words.lower() in node.hostname.lower()][:SEARCH_SHOWN]
    return [
        {"name": "Jobs", "items": [_item("jobs:detail", [j.id], j.name, j.team_id, j.state) for j in jobs]},
        {
            "name": "Experiments",
            "items": [_item("experiments:detail", [e.id], e.name, e.team_id) for e in runs_of],
        },
        {
            "name": "Models",
            "items": [_item("registry:detail", [m.team_id, m.name], m.name, m.team_id) for m in models],
        },
        {
            "name": "Nodes",
            "items": [_item("nodes:node", [n.id], n.hostname, n.rack, n.state) for n in nodes],
        },
    ]


def _item(url: str, arguments: list[Any], label: str, note: str, state: str = "") -> dict[str, str]:
    return {"url": reverse(url, args=arguments), "label": label, "note": note, "state": state}
