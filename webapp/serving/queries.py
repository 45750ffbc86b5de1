"""Endpoints as lists, pages and routers read them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from django.db.models import Avg, Count, F, Q, QuerySet, Sum

from platform_core.jobs.states import TERMINAL, JobState
from platform_core.serving.autoscaling import Reading
from platform_core.serving.canary import CanaryPolicy, Traffic
from platform_core.serving.collection import Consent
from platform_core.serving.latency import added, quantile_ms
from platform_core.serving.quality import Quality
from platform_core.serving.states import EndpointState, ReplicaState
from platform_core.units import DAY_MS
from webapp.accounts.permissions import may
from webapp.accounts.queries import actor_of
from webapp.serving.models import Endpoint, Prediction, Replica, TrafficSample
from webapp.serving.values import BUCKET_MS, ReplicaAddress, Route

_ANSWERS = (JobState.SCHEDULED, JobState.INITIALIZING, JobState.RUNNING, JobState.CHECKPOINTING)
_GONE = (ReplicaState.DRAINING, ReplicaState.ENDED)


def visible(teams: Iterable[str] | None) -> QuerySet[Endpoint]:
    """Endpoints of these teams that are not stopped, and the stopped after them; of every team for None."""
    rows = Endpoint.objects.select_related("team", "user", "stable__model", "canary").order_by(
        "team", "name", "id"
    )
    return rows if teams is None else rows.filter(team__in=list(teams))


def living(teams: Iterable[str] | None) -> QuerySet[Endpoint]:
    return visible(teams).exclude(state=EndpointState.STOPPED)


def find(team: str, name: str, teams: Collection[str] | None) -> Endpoint | None:
    return living(teams).filter(team=team, name=name).first()


def replicas(endpoint_id: str) -> list[Replica]:
    """Those that have not ended, with their jobs."""
    rows = Replica.objects.filter(endpoint=endpoint_id).exclude(state=ReplicaState.ENDED)
    return list(rows.select_related("job", "model_version").order_by("id"))


def is_freeing(endpoint_id: str) -> bool:
    """Whether the job of a replica that was stopped still has its slots."""
    ended = Replica.objects.filter(endpoint=endpoint_id, state=ReplicaState.ENDED)
    return ended.exclude(job__state__in=TERMINAL).exists()


def routes() -> list[Route]:
    """All endpoints that take requests, with the replicas that may answer them."""
    endpoints = Endpoint.objects.exclude(state=EndpointState.STOPPED).filter(stopped=False)
    canaries = {row.id: row.canary_id for row in endpoints}
    addresses = defaultdict(list)
    rows = Replica.objects.filter(endpoint__in=canaries, job__state__in=_ANSWERS).exclude(state__in=_GONE)
    rows = rows.filter(job__attempts__number=F("job__attempt"))
    for endpoint, *columns in rows.values_list(
        "endpoint_id", "id", "model_version__version", "model_version_id", "job_id", "job__attempt",
        "job__attempts__master_address", "job__attempts__master_port",
    ):  # fmt: skip
        key, version, version_id, job, attempt, host, port = cast("Any", columns)
        canary = version_id == canaries[endpoint]
        addresses[endpoint].append(ReplicaAddress(key, version, version_id, canary, job, attempt, host, port))
    return [
        Route(
            row.id, row.team_id, row.name, row.stable_id, _share(row, shadow=False), row.spec["retry"],
            row.spec["rate_limit"], not row.wanted, tuple(addresses[row.id]),
            row.spec.get("sample_percent", 0), tuple(row.spec.get("redact", ())),
            row.spec.get("cache_seconds", 0), _share(row, shadow=True), consent_of(row),
        )
        for row in endpoints
    ]  # fmt: skip


def consent_of(row: Endpoint) -> Consent:
    return Consent(tuple(row.spec.get("collect_for", ())), row.spec.get("ask_consent", True))


def _share(row: Endpoint, *, shadow: bool) -> int:
    policy = canary_policy(row)
    return policy.share if row.canary_id and policy.shadow == shadow else 0


def canary_policy(row: Endpoint) -> CanaryPolicy:
    return CanaryPolicy(**row.canary_policy)


def traffic(endpoint_id: str, version_id: str, since_ms: int) -> Traffic:
    """Of one version since then."""
    rows = TrafficSample.objects.filter(endpoint=endpoint_id, model_version=version_id, at_ms__gte=since_ms)
    total = rows.aggregate(requests=Sum("requests"), errors=Sum("errors"))
    counts = added(rows.values_list("latencies", flat=True))
    return Traffic(total["requests"] or 0, total["errors"] or 0, tuple(counts))


def readings(endpoint_id: str, since_ms: int) -> list[Reading]:
    """Of all versions and routers together, in ten-second steps, the oldest first."""
    steps: dict[int, list[TrafficSample]] = defaultdict(list)
    for sample in TrafficSample.objects.filter(endpoint=endpoint_id, at_ms__gte=since_ms):
        steps[sample.at_ms].append(sample)
    return [
        Reading(
            at_ms + BUCKET_MS,
            sum(one.in_flight_ms for one in samples) / BUCKET_MS,
            sum(one.requests for one in samples),
            quantile_ms(added(one.latencies for one in samples), 0.99),
        )
        for at_ms, samples in sorted(steps.items())
    ]


def samples(endpoint_ids: Collection[str], since_ms: int, until_ms: int) -> list[TrafficSample]:
    """What routers saw of these endpoints, the oldest first."""
    rows = TrafficSample.objects.filter(endpoint__in=endpoint_ids, at_ms__gte=since_ms, at_ms__lt=until_ms)
    return list(rows.select_related("model_version").order_by("at_ms"))


def ready_counts(endpoint_ids: Collection[str]) -> dict[str, int]:
    rows = Replica.objects.filter(endpoint__in=endpoint_ids, state=ReplicaState.READY)
    return dict(rows.order_by().values_list("endpoint").annotate(Count("id")))


def nodes(endpoint_id: str) -> dict[str, tuple[str, str]]:
    """Replica → id and hostname of the node that its job is on."""
    member = "job__attempts__members"
    rows = Replica.objects.filter(endpoint=endpoint_id, job__attempts__number=F("job__attempt"))
    rows = rows.exclude(state=ReplicaState.ENDED).exclude(**{member: None})
    columns = rows.values_list("id", f"{member}__node", f"{member}__node__hostname")
    return {replica: (node, hostname) for replica, node, hostname in columns}


def names(endpoint_ids: Collection[str]) -> dict[str, str]:
    return dict(Endpoint.objects.filter(id__in=endpoint_ids).values_list("id", "name"))


@dataclass(frozen=True, slots=True)
class RequestData:
    """The dataset of the requests of an endpoint, and how long they may be kept."""

    team: str
    dataset: str
    days: int


def request_data() -> list[RequestData]:
    """Also of endpoints that are stopped."""
    rows = Endpoint.objects.exclude(collection={}).order_by("id")
    return [RequestData(row.team_id, collected_name(row), row.spec.get("collect_days", 30)) for row in rows]


def collected_name(row: Endpoint) -> str:
    return f"{row.name}-requests"


@dataclass(frozen=True, slots=True)
class Drift:
    """What of an endpoint has drifted, by the last look."""

    endpoint_id: str
    name: str
    team: str
    moved: tuple[str, ...]


def drifts() -> list[Drift]:
    """Of the living endpoints that had enough samples."""
    rows = Endpoint.objects.filter(stopped=False).exclude(drift={}).order_by("id")
    return [
        Drift(
            row.id, row.name, row.team_id, moved(row.drift["findings"]),
        )
        for row in rows
        if row.drift["findings"]
    ]  # fmt: skip


WINDOWS_MS = {"24 h": DAY_MS, "7 days": 7 * DAY_MS, "30 days": 30 * DAY_MS}
NEWEST_LABELLED = 500


def qualities(endpoint_id: str, version_ids: Collection[str], now_ms: int) -> dict[tuple[str, str], Quality]:
    """By version and window, of the requests of that time."""
    return {
        (version, window): _quality(
            Prediction.objects.filter(endpoint=endpoint_id, model_version=version, at_ms__gte=now_ms - span)
        )
        for version in version_ids
        for window, span in WINDOWS_MS.items()
    }


def online_quality(row: Endpoint, now_ms: int) -> list[tuple[int, str, Quality]]:
    """Version, window and quality: of the version in use and the canary."""
    numbers = {one.id: one.version for one in (row.stable, row.canary) if one is not None}
    found = qualities(row.id, list(numbers), now_ms)
    return [(numbers[version], window, quality) for (version, window), quality in found.items()]


def quality_since(endpoint_id: str, version_id: str, since_ms: int) -> Quality:
    """Of the answers of one version since then."""
    return _quality(
        Prediction.objects.filter(endpoint=endpoint_id, model_version=version_id, at_ms__gte=since_ms)
    )


def online(row: Endpoint, version_id: str) -> Quality:
    """Of the newest requests to a version that have a label."""
    labelled = Prediction.objects.filter(endpoint=row.id, model_version=version_id, correct__isnull=False)
    newest = labelled.order_by("-at_ms", "-id").values("pk")[:NEWEST_LABELLED]
    return _quality(Prediction.objects.filter(pk__in=newest))


def _quality(rows: QuerySet[Prediction]) -> Quality:
    total = rows.aggregate(
        answers=Count("id"),
        labelled=Count("correct"),
        right=Count("id", filter=Q(correct=True)),
        error=Avg("error"),
    )
    return Quality(total["answers"], total["labelled"], total["right"], total["error"])


def drifted(row: Endpoint) -> tuple[str, ...] | None:
    """What has moved, by the last look; None where there were too few samples."""
    found = row.drift.get("findings")
    return moved(found) if found else None


def moved(findings: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """What has drifted: features, and features in slices that moved while all rows together did not."""
    ordered = [one for one in findings if one["moved"]]
    whole = {one["feature"] for one in ordered if not one.get("slice")}
    names = (
        one["feature"] if one["feature"] in whole else f"{one['feature']} where {one['slice']}"
        for one in ordered
    )
    return tuple(dict.fromkeys(names))


def may_watch(user: Any, endpoint_id: str) -> bool:
    team = Endpoint.objects.filter(id=endpoint_id).values_list("team_id", flat=True).first()
    return team is not None and may(actor_of(user), "endpoint.view", team)


def serving(*, versions: Iterable[str] = (), endpoints: Iterable[str] = ()) -> list[Endpoint]:
    """Endpoints that answer with one of these versions, or try it, and these endpoints; stopped ones are left out."""
    ids = list(versions)
    rows = Endpoint.objects.filter(Q(stable__in=ids) | Q(canary__in=ids) | Q(id__in=list(endpoints)))
    rows = rows.filter(stopped=False).select_related("user", "stable__model", "canary")
    return list(rows.order_by("-created_ms", "id"))
