"""The measures of endpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from platform_core.units import plural
from webapp.alerts.values import Read, Reading
from webapp.serving import queries as serving
from webapp.serving.measures import loads


def _drift(at_ms: int) -> Iterator[Reading]:
    for one in serving.drifts():
        detail = "; ".join(one.moved[:5]) + (" and more" if len(one.moved) > 5 else "")
        yield Reading(len(one.moved), one.endpoint_id, one.name, one.team, detail)


def _replicas_short(at_ms: int) -> Iterator[Reading]:
    for one in loads(at_ms):
        detail = plural(one.wanted, "replica")
        yield Reading(max(0, one.wanted - one.ready), one.id, one.name, one.team, detail)


def _without_replica(at_ms: int) -> Iterator[Reading]:
    """One that was never ready is starting, which takes as long as its model is large."""
    for one in loads(at_ms):
        is_down = one.was_ready and one.wanted > 0 and one.ready == 0
        yield Reading(int(is_down), one.id, one.name, one.team, plural(one.wanted, "replica"))


def _endpoint_errors(at_ms: int) -> Iterator[Reading]:
    for one in loads(at_ms):
        detail = f"{one.errors:,} of {plural(one.requests, 'request')} in five minutes"
        yield Reading(one.error_percent, one.id, one.name, one.team, detail)


def _endpoint_latency(at_ms: int) -> Iterator[Reading]:
    for one in loads(at_ms):
        if one.target_latency_ms:
            detail = f"{one.p99_ms or 0:.0f} ms, and {one.target_latency_ms} ms are wanted"
            yield Reading(one.latency_percent, one.id, one.name, one.team, detail)


READS: Mapping[str, Read] = {
    "endpoint.drift": _drift,
    "endpoint.without_replica": _without_replica,
    "endpoint.replicas_short": _replicas_short,
    "endpoint.errors": _endpoint_errors,
    "endpoint.latency": _endpoint_latency,
}
