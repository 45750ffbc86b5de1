"""The pages of endpoints: the list, and one endpoint with its replicas, traffic and canary, live."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from platform_core.errors import TrainmasterError
from platform_core.serving.canary import CanaryPolicy, Traffic
from platform_core.serving.quality import Quality
from platform_core.serving.states import EndpointState, ReplicaState
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.accounts.queries import teams as team_views
from webapp.base.identity import now_ms
from webapp.events.models import Event
from webapp.events.queries import story
from webapp.pages import fragments
from webapp.pages.figures import Figure
from webapp.pages.serving import traffic
from webapp.pages.serving.traffic import CHART_MS, RATE_MS, Seen
from webapp.registry import queries as registry
from webapp.serving import collecting, queries, training, watching
from webapp.serving.collecting import Collected
from webapp.serving.drift import REFERENCE
from webapp.serving.models import Endpoint, Replica, TrafficSample
from webapp.serving.watching import Otherwise

EVENTS = 12
OTHERWISE = 8
WORDS = {EndpointState.IDLE: "scaled to zero"}
VALUES = {"share_percent": 10, "watch_minutes": 5, "min_requests": 100, "min_agreement": 0, "automatic": "on"}
UNCHECKED = dict.fromkeys(("automatic", "shadow", "same_outputs"), "")
QUIET = traffic.seen([], RATE_MS)


@dataclass(frozen=True, slots=True)
class Line:
    endpoint: Endpoint
    word: str  # the state
    ready: int
    seen: Seen  # in the last minute


@dataclass(frozen=True, slots=True)
class EndpointListPage:
    subjects: str  # of the live socket: "endpoints:vision"
    endpoints: Sequence[Line]
    may_create: bool


@dataclass(frozen=True, slots=True)
class ReplicaLine:
    replica: Replica
    node: tuple[str, str] | None  # id and hostname
    canary: bool


@dataclass(frozen=True, slots=True)
class OtherwiseLine:
    """A request that both versions answered, each in its way."""

    request: str
    stable: str
    canary: str


@dataclass(frozen=True, slots=True)
class Watched:
    """A version under trial beside the version in use, since it began."""

    share: float  # percent of the requests
    policy: CanaryPolicy
    versions: Sequence[tuple[str, int, Seen, Quality]]  # role, number, what it answered, and how well
    traffic: Traffic  # of the version under trial
    moved: Sequence[str]  # outputs
    otherwise: Sequence[OtherwiseLine]


@dataclass(frozen=True, slots=True)
class Drift:
    """The last look for drift."""

    percent: int  # of the answers, that are sampled
    reference: int  # samples
    wanted: int
    references: Sequence[tuple[str, int]]  # name, samples
    problem: str  # of the sample of its training data
    window: int
    findings: Sequence[Mapping[str, Any]]
    moved: Sequence[str]


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of its requests as data."""

    dataset: str
    purposes: Sequence[str]
    days: int
    collected: Collected
    made: Mapping[str, Any]  # the newest version


@dataclass(frozen=True, slots=True)
class QualityLine:
    version: int
    window: str
    quality: Quality


@dataclass(frozen=True, slots=True)
class EndpointPage:
    """Fragments: live, charts."""

    endpoint: Endpoint
    word: str
    address: str
    kpis: Callable[[], Sequence[Figure]]
    replicas: Callable[[], Sequence[ReplicaLine]]
    canary: Callable[[], Watched | None]
    rate_chart: Callable[[], dict[str, Any]]
    latency_chart: Callable[[], dict[str, Any]]
    error_chart: Callable[[], dict[str, Any]]
    drift: Drift | None  # None: nothing is sampled
    collection: Callable[[], Kept | None]  # None: nothing is collected
    qualities: Callable[[], Sequence[QualityLine]]  # none: no answer has a label
    events: Callable[[], Sequence[Event]]
    may_change: bool
    versions: Callable[[], Sequence[int]]  # that could be served instead
    values: Mapping[str, Any]  # of the forms
    problems: Mapping[str, str]
    trial: Any  # webapp.pages.serving.trial.Trial; None: nothing was tried
    may_call: bool


@login_required
@require_GET
def endpoint_list(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    rows = list(queries.living(actor.sees))
    keys = [row.id for row in rows]
    until = traffic.whole_until(now_ms())
    seen = traffic.by_endpoint(queries.samples(keys, until - RATE_MS, until), RATE_MS)
    ready = queries.ready_counts(keys)
    teams = [view.slug for view in team_views(actor.sees)]
    page = EndpointListPage(
        subjects=" ".join(f"endpoints:{slug}" for slug in teams),
        endpoints=[Line(row, _word(row), ready.get(row.id, 0), seen.get(row.id, QUIET)) for row in rows],
        may_create=any(permissions.may(actor, "endpoint.create", slug) for slug in teams),
    )
    return fragments.render(request, "serving/list.html", page)


def _word(row: Endpoint) -> str:
    return WORDS.get(EndpointState(row.state), row.state)


@login_required
@require_GET
def detail(request: HttpRequest, team: str, name: str) -> HttpResponse:
    return show(request, actor_of(request), team, name)


def show(
    request: HttpRequest,
    actor: Actor,
    team: str,
    name: str,
    problem: str = "",
    status: int = 200,
    trial: Any = None,
) -> HttpResponse:
    """The page, with what was entered and the refusal above it where a form was refused."""
    row = queries.find(team, name, actor.sees)
    if row is None:
        raise TrainmasterError("not_found", what=f"endpoint {name} in team {team}")
    page = _page(actor, row, request.POST.dict(), {"": problem} if problem else {}, trial)
    return fragments.render(request, "serving/detail.html", page, status=status)


def _page(
    actor: Actor, row: Endpoint, given: Mapping[str, Any], problems: Mapping[str, str], trial: Any
) -> EndpointPage:
    now = now_ms()
    until = traffic.whole_until(now)
    last_hour = cache(lambda: queries.samples([row.id], until - CHART_MS, until))
    replicas = cache(lambda: queries.replicas(row.id))
    owner = row.user.username
    values = VALUES | {name: row.spec[name] for name in ("min_replicas", "max_replicas")}
    return EndpointPage(
        endpoint=row,
        word=_word(row),
        address=f"{settings.ROUTER_URL}/endpoints/{row.team_id}/{row.name}",
        kpis=lambda: _kpis(row, last_hour(), replicas(), until),
        replicas=lambda: _replicas(row, replicas()),
        canary=lambda: _watched(row, now),
        rate_chart=lambda: traffic.rate_chart(last_hour()),
        latency_chart=lambda: traffic.latency_chart(last_hour()),
        error_chart=lambda: traffic.error_chart(last_hour()),
        drift=_drift(row),
        collection=lambda: _collection(row),
        qualities=lambda: _qualities(row, now),
        events=lambda: story(f"endpoint:{row.id}", EVENTS)[::-1],
        may_change=not row.stopped and permissions.may(actor, "endpoint.change", row.team_id, owner=owner),
        versions=lambda: _versions(row),
        values={**values, **({**UNCHECKED, **given} if "version" in given else given)},
        problems=problems,
        trial=trial,
        may_call=not row.stopped and permissions.may(actor, "endpoint.call", row.team_id),
    )


def _kpis(
    row: Endpoint, last_hour: Sequence[TrafficSample], replicas: Sequence[Replica], until_ms: int
) -> list[Figure]:
    seen = traffic.seen([one for one in last_hour if one.at_ms >= until_ms - RATE_MS], RATE_MS)
    ready = sum(one.state == ReplicaState.READY for one in replicas)
    target = row.spec["target_latency_ms"]
    failed = "bad" if seen.errors else ""
    return [
        Figure("Requests/s", seen.rate, "in the last minute"),
        Figure("p50", seen.p50, "of the latency"),
        Figure("p99", seen.p99, f"target {target} ms" if target else "no target"),
        Figure("Errors", seen.error_share, f"{seen.errors} of {seen.requests}", failed),
        Figure("Replicas", f"{ready}/{row.wanted}", "ready of wanted", "" if ready >= row.wanted else "wait"),
        Figure("Limits", f"{row.spec['min_replicas']}–{row.spec['max_replicas']}", "replicas"),
    ]


def _replicas(row: Endpoint, replicas: Sequence[Replica]) -> list[ReplicaLine]:
    nodes = queries.nodes(row.id)
    return [ReplicaLine(one, nodes.get(one.id), one.model_version_id == row.canary_id) for one in replicas]


def _watched(row: Endpoint, now: int) -> Watched | None:
    if row.canary is None:
        return None
    began = row.canary_since_ms or now
    since = traffic.whole_until(began)
    policy = queries.canary_policy(row)
    found = watching.watch(row, policy, now, outputs=True)
    role = "shadow" if policy.shadow else "canary"
    versions = [
        (role, row.canary.version, traffic.of(found.canary, now - since), found.canary_quality),
        ("in use", row.stable.version, traffic.of(found.stable, now - since), found.stable_quality),
    ]
    return Watched(
        policy.share / 100, policy, versions, found.canary, found.moved,
        [_otherwise(one) for one in watching.answered_otherwise(row, OTHERWISE)],
    )  # fmt: skip


def _otherwise(one: Otherwise) -> OtherwiseLine:
    return OtherwiseLine(one.request, _answer(one.stable), _answer(one.canary))


def _answer(outputs: Mapping[str, Any]) -> str:
    """Such as "0.1, 0.7, 0.2" of scores, or the text."""
    values = [value for one in outputs.values() for value in (one if isinstance(one, list) else [one])]
    return ", ".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in values)


def _drift(row: Endpoint) -> Drift | None:
    percent, last = row.spec.get("sample_percent", 0), row.drift
    if not percent:
        return None
    findings = last.get("findings", [])
    reference, window = last.get("reference", 0), last.get("window", 0)
    return Drift(
        percent, reference, REFERENCE, sorted(last.get("references", {}).items()), training.problem_of(row.stable_id),
        window, findings, queries.moved(findings),
    )  # fmt: skip


def _collection(row: Endpoint) -> Kept | None:
    kept = collecting.collected(row)
    purposes = row.spec.get("collect_for", [])
    if not purposes and not kept.requests:
        return None
    return Kept(queries.collected_name(row), purposes, row.spec.get("collect_days", 30), kept, row.collection)


def _qualities(row: Endpoint, now: int) -> list[QualityLine]:
    lines = [QualityLine(*line) for line in queries.online_quality(row, now)]
    return [line for line in lines if line.quality.labelled]


def _versions(row: Endpoint) -> list[int]:
    ready = [one for one in registry.versions(row.stable.model) if one.state == "ready"]
    return [one.version for one in ready if one.id != row.stable_id]
