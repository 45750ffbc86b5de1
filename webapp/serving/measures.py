"""How endpoints do now, for alerts: their replicas, and what routers saw within the last minutes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Sum

from platform_core.serving.latency import added, quantile_ms
from platform_core.units import MINUTE_MS
from webapp.serving import queries
from webapp.serving.models import Endpoint, TrafficSample

SEEN_MS = 5 * MINUTE_MS
LEAST_REQUESTS = 20  # fewer make no percentage


@dataclass(frozen=True, slots=True)
class Load:
    """Of one endpoint that is not stopped; requests, errors and p99 of the last five minutes."""

    id: str
    name: str
    team: str
    wanted: int
    ready: int
    was_ready: bool
    requests: int
    errors: int
    p99_ms: float | None
    target_latency_ms: int  # 0: none

    @property
    def error_percent(self) -> float | None:
        return 100 * self.errors / self.requests if self.requests >= LEAST_REQUESTS else None

    @property
    def latency_percent(self) -> float | None:
        if self.p99_ms is None or not self.target_latency_ms or self.requests < LEAST_REQUESTS:
            return None
        return 100 * self.p99_ms / self.target_latency_ms


def owners(endpoint_ids: Collection[str]) -> dict[str, int]:
    """Endpoint → the key of who made it."""
    return dict(Endpoint.objects.filter(id__in=list(endpoint_ids)).values_list("id", "user_id"))


def loads(at_ms: int) -> list[Load]:
    rows = list(Endpoint.objects.filter(stopped=False).order_by("id"))
    ids = [row.id for row in rows]
    ready = queries.ready_counts(ids)
    seen = TrafficSample.objects.filter(endpoint__in=ids, at_ms__gte=at_ms - SEEN_MS, at_ms__lt=at_ms)
    sums = seen.order_by().values_list("endpoint").annotate(Sum("requests"), Sum("errors"))
    traffic = {endpoint: (requests, errors) for endpoint, requests, errors in sums}
    targets = {row.id: int(row.spec.get("target_latency_ms", 0)) for row in rows}
    slowest = {
        endpoint: quantile_ms(added(seen.filter(endpoint=endpoint).values_list("latencies", flat=True)), 0.99)
        for endpoint, target in targets.items()
        if target
    }
    return [
        Load(
            row.id, row.name, row.team_id, row.wanted, ready.get(row.id, 0), row.was_ready,
            *traffic.get(row.id, (0, 0)), slowest.get(row.id), targets[row.id],
        )
        for row in rows
    ]  # fmt: skip
