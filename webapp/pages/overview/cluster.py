"""The cluster: what runs where, which nodes need attention, what is pending, how busy the slots are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from platform_core.cluster.health import NodeState
from platform_core.jobs.states import ACTIVE
from platform_core.units import DAY_MS, plural
from webapp.accounts.permissions import Actor, may
from webapp.accounts.queries import actor_of
from webapp.accounts.queries import teams as team_views
from webapp.alerts import queries as alerts
from webapp.base.identity import now_ms
from webapp.events.queries import recent
from webapp.jobs import idle_policy, queries
from webapp.jobs.models import UtilisationSample
from webapp.nodes.join_command import join_command
from webapp.nodes.queries import NodeSummary
from webapp.pages import fragments, line_chart
from webapp.pages.figures import Figure
from webapp.pages.line_chart import LineChart
from webapp.pages.overview import cluster_map
from webapp.pages.overview.cluster_map import ClusterMap, LegendLine, Rack
from webapp.pages.wording import slot_noun
from webapp.scheduling import queries as scheduling
from webapp.scheduling.queue import NOT_CONSIDERED_YET

if TYPE_CHECKING:
    from webapp.events.models import Event
    from webapp.jobs.models import Job

PENDING_SHOWN = 8
EVENTS_SHOWN = 12
SINGLE_STEPS = (
    "MemberAssigned", "MemberPreparing", "MemberRunning", "CheckpointStarted", "CheckpointSaved",
    "WorkerReceiving", "WorkerComplete", "WorkerEvicted",
    "DeploymentDownloading", "DeploymentDistributing", "DeploymentVerifying",
)  # fmt: skip
ENDS_OF_MEMBERS = ("MemberExited", "MemberLost")  # the last of them is the end of the job
BUSY_POINTS = 200


@dataclass(frozen=True, slots=True)
class JobLine:
    id: str
    name: str
    team: str
    user: str
    gpus: int
    gpu_type: str


@dataclass(frozen=True, slots=True)
class IdleLine:
    job: JobLine
    since_ms: int | None
    consequence: str  # "gives its slots up in 28 min, …", or ""


@dataclass(frozen=True, slots=True)
class PendingLine:
    job: JobLine
    priority: int
    reason: str
    starts: str  # "in about 12 min", or ""


@dataclass(frozen=True, slots=True)
class Headline:
    state: str  # healthy, degraded or empty
    number: str  # "6 of 16 GPUs in use"
    sentence: str  # "on 4 nodes in 2 racks"
    figures: list[Figure]
    attention: list[NodeSummary]  # nodes that do not take work


@dataclass(frozen=True, slots=True)
class ClusterPage:
    """Fragments: numbers, idle, map, pending, busy, events."""

    subjects: Callable[[], str]
    headline: Callable[[], Headline]
    join_command: Callable[[], str]
    may: dict[str, bool]
    racks: Callable[[], list[Rack]]
    legend: Callable[[], list[LegendLine]]
    unreached: Callable[[], list[str]]  # why nobody is told of alerts
    pending: Callable[[], list[PendingLine]]
    pending_more: Callable[[], int]  # of the reader's teams, not shown
    pending_elsewhere: Callable[[], int]  # of other teams
    idle: Callable[[], list[IdleLine]]  # the longest first
    busy: Callable[[], LineChart | None]
    events: Callable[[], list[Event]]


@login_required
@require_GET
def cluster(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    built = cache(lambda: cluster_map.build(actor))
    pending = queries.in_queue_order(queries.visible(actor.sees))
    own_pending = cache(pending.count)
    page = ClusterPage(
        subjects=lambda: " ".join(["cluster", *(f"jobs:{view.slug}" for view in team_views(actor.sees))]),
        headline=lambda: _headline(actor, built()),
        join_command=join_command,
        may={"join": may(actor, "node.operate")},
        racks=lambda: built().racks,
        legend=lambda: built().legend,
        unreached=lambda: alerts.unreached(actor),
        pending=lambda: _pending(list(pending[:PENDING_SHOWN]), actor),
        pending_more=lambda: max(0, own_pending() - PENDING_SHOWN),
        pending_elsewhere=lambda: queries.waiting_count(None) - own_pending(),
        idle=lambda: _idle(actor, now_ms()),
        busy=lambda: busy(now_ms()),
        events=lambda: _news(actor),
    )
    return fragments.render(request, "overview/cluster.html", page)


def _headline(actor: Actor, built: ClusterMap) -> Headline:
    attention = [node for node in built.nodes if node.state is not NodeState.READY]
    if not built.nodes:
        return Headline("empty", "No node has joined yet", "", [], [])
    silent = any(node.state in (NodeState.LOST, NodeState.SUSPECT) for node in attention)
    noun = slot_noun(node.gpu_type for node in built.nodes)
    where = f"on {plural(len(built.nodes), 'node')} in {plural(len(built.racks), 'rack')}"
    return Headline(
        state="degraded" if silent else "healthy",
        number=f"{built.held} of {plural(built.slots, noun)} in use",
        sentence=where,
        figures=_figures(actor, built.nodes),
        attention=attention,
    )


def _figures(actor: Actor, nodes: Iterable[NodeSummary]) -> list[Figure]:
    every, seen = (queries.count_by_state(queries.visible(teams)) for teams in (None, actor.sees))
    return [
        _utilisation(),
        _jobs("Running", every, seen, "active", actor),
        _jobs("Pending", every, seen, "waiting", actor),
        Figure("Nodes", str(len(list(nodes))), _node_states(nodes)),
    ]


def _jobs(label: str, every: dict[str, int], seen: dict[str, int], group: str, actor: Actor) -> Figure:
    """Jobs of the whole cluster, and how many of them the reader may look at."""
    total, own = (sum(counts.get(state, 0) for state in queries.states_of(group)) for counts in (every, seen))
    return Figure(label, str(total), "of all teams" if actor.sees is None else f"{own} of your teams")


def _utilisation() -> Figure:
    """Mean over all slots that are held, and over those of each type."""
    newest = UtilisationSample.objects.order_by("-at_ms").values("at_ms")[:1]
    rows = UtilisationSample.objects.filter(at_ms=newest).exclude(utilisation=None).order_by("gpu_type")
    types = [(row.gpu_type, row.held, row.utilisation or 0.0) for row in rows]
    held = sum(slots for _, slots, _ in types)
    mean = f"{_percent(sum(slots * busy for _, slots, busy in types), held):.0f} %" if held else "–"
    by_type = " · ".join(f"{gpu_type} {100 * busy:.0f} %" for gpu_type, _, busy in types)
    return Figure("Utilisation", mean, by_type or "of the slots in use")


def _node_states(nodes: Iterable[NodeSummary]) -> str:
    others = Counter(str(node.state) for node in nodes if node.state is not NodeState.READY)
    return ", ".join(f"{count} {state}" for state, count in sorted(others.items())) or "all ready"


def _line(job: Job) -> JobLine:
    return JobLine(job.id, job.name, job.team_id, job.user.username, job.num_gpus, job.gpu_type)


def _idle(actor: Actor, now: int) -> list[IdleLine]:
    return [
        IdleLine(_line(job), job.idle_since_ms, idle_policy.follows(job, now))
        for job in idle_policy.idle(now, actor.sees)
    ]


def _pending(jobs: list[Job], actor: Actor) -> list[PendingLine]:
    named = queries.calling_by_names([job.wait_sentence for job in jobs], actor.sees)
    now = now_ms()
    forecasts = scheduling.forecasts([job.id for job in jobs])
    return [
        PendingLine(
            _line(job),
            job.priority,
            named(job.wait_sentence) or NOT_CONSIDERED_YET,
            scheduling.start_in_words(job, forecasts.get(job.id), now),
        )
        for job in jobs
    ]


def _news(actor: Actor) -> list[Event]:
    """Events worth telling: the single steps of ranks, checkpoints and workers stand on their own pages."""
    events = recent(actor.sees, limit=5 * EVENTS_SHOWN, without=SINGLE_STEPS)
    shown = [e for e in events if e.kind not in ENDS_OF_MEMBERS or e.data.get("state") not in ACTIVE]
    return shown[:EVENTS_SHOWN]


def busy(now: int) -> LineChart | None:
    """Slots in use and their utilisation over the last day, in percent."""
    rows = UtilisationSample.objects.filter(at_ms__gte=now - DAY_MS).order_by("at_ms")
    moments: dict[int, list[tuple[int, int, float | None]]] = {}
    for at_ms, slots, held, utilisation in rows.values_list("at_ms", "slots", "held", "utilisation"):
        moments.setdefault(at_ms, []).append((slots, held, utilisation))
    times = sorted(moments)
    times = times[:: max(1, len(times) // BUSY_POINTS)]
    held_share = [_percent(sum(m[1] for m in moments[t]), sum(m[0] for m in moments[t])) for t in times]
    used = [
        _percent(sum(m[1] * (m[2] or 0) for m in moments[t]), sum(m[0] for m in moments[t])) for t in times
    ]
    return line_chart.of_percentages(times, {"in use": held_share, "busy": used})


def _percent(part: float, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0
