"""What the last week of an endpoint lets expect."""

from __future__ import annotations

from functools import reduce
from operator import or_

from django.db.models import Q, Sum

from platform_core.serving import forecast
from platform_core.serving.forecast import Past
from webapp.serving.models import TrafficSample
from webapp.serving.values import BUCKET_MS


def expected_demand(endpoint_id: str, now_ms: int) -> float:
    """In requests at once; 0.0 before the endpoint is some days old."""
    now_ms -= now_ms % BUCKET_MS
    today = (now_ms - forecast.BEFORE_MS, now_ms)
    spans = forecast.windows(now_ms)
    demand = _demand(endpoint_id, [today, *spans])
    if not demand:
        return 0.0
    days = []
    for start, end in spans:
        readings = _readings(demand, start, end)
        cut = forecast.BEFORE_MS // BUCKET_MS
        days.append(Past(readings[:cut], readings[cut:]))
    return forecast.expected(_readings(demand, *today), days)


def _demand(endpoint_id: str, spans: list[tuple[int, int]]) -> dict[int, float]:
    inside = reduce(or_, (Q(at_ms__gte=start, at_ms__lt=end) for start, end in spans))
    rows = TrafficSample.objects.filter(inside, endpoint=endpoint_id).order_by().values_list("at_ms")
    return {at_ms: total / BUCKET_MS for at_ms, total in rows.annotate(total=Sum("in_flight_ms"))}


def _readings(demand: dict[int, float], start: int, end: int) -> list[float]:
    """One a step, 0.0 for a step without requests."""
    return [demand.get(at_ms, 0.0) for at_ms in range(start, end, BUCKET_MS)]
