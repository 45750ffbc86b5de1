"""Metrics of deployments, read from the rows at each scrape: no process keeps counters of its own."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from django.db.models import Count, QuerySet, Sum
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from platform_core.distribution.deployments.deployment import DeploymentState
from webapp.deployments.models import Deployment
from webapp.events import queries as events

PREFIX = "trainmaster_deployment"
RATIOS = (1.01, 1.02, 1.05, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
_SUMS = {
    "moved_bytes": ("moved_bytes", "Bytes that nodes received and verified."),
    "store_bytes": ("store_bytes", "Bytes that nodes pulled from the store themselves."),
    "refused_bytes": ("refused_bytes", "Bytes discarded because their SHA-256 was wrong."),
    "retries": ("retries", "Requests that a node repeated, to the same sender or another one."),
}
_EVENTS = {
    "WorkerFailed": (
        "node_failures",
        "Nodes that failed, or were lost, while a deployment went to them.",
    ),
    "WorkerEvicted": ("evictions", "Copies that nodes evicted for free space."),
    "DamagedBytesRefused": (
        "damaged_senders",
        "Senders of damaged bytes, as reported by their receivers.",
    ),
}


def families(teams: Collection[str] | None) -> tuple[Metric, ...]:
    """Returns the metrics of these teams, or of all teams for None."""
    rows = Deployment.objects.all()
    if teams is not None:
        rows = rows.filter(team__in=teams)
    return (
        _states(rows),
        _nodes(rows),
        *_sums(rows),
        *_events(teams),
        _time_over_bound(rows),
    )


def _states(rows: QuerySet[Deployment]) -> Metric:
    family = GaugeMetricFamily("trainmaster_deployments", "Deployments by state.", labels=("team", "state"))
    for team, state, count in sorted(rows.order_by().values_list("team", "state").annotate(Count("id"))):
        family.add_metric((team, state), count)
    return family


def _nodes(rows: QuerySet[Deployment]) -> Metric:
    counts: Counter[tuple[str, str]] = Counter()
    grouped: Any = rows.order_by().values_list("team", "node_states").annotate(Count("id"))
    for team, states, deployments in grouped:
        for state, nodes in states.items():
            counts[team, state] += nodes * deployments
    family = GaugeMetricFamily(f"{PREFIX}_nodes", "Nodes of deployments by state.", labels=("team", "state"))
    for labels, count in sorted(counts.items()):
        family.add_metric(labels, count)
    return family


def _sums(rows: QuerySet[Deployment]) -> list[Metric]:
    sums = {f"sum_{column}": Sum(column) for column in _SUMS}
    by_team: list[Any] = sorted(rows.order_by().values_list("team").annotate(**sums))
    return [
        _counter(name, description, {row[0]: row[column] for row in by_team})
        for column, (name, description) in enumerate(_SUMS.values(), start=1)
    ]


def _events(teams: Collection[str] | None) -> list[Metric]:
    counts = events.counts(list(_EVENTS), None if teams is None else list(teams))
    return [
        _counter(name, description, {team: count for (kind, team), count in counts.items() if kind == event})
        for event, (name, description) in _EVENTS.items()
    ]


def _counter(name: str, description: str, by_team: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"{PREFIX}_{name}", description, labels=("team",))
    for team, value in sorted(by_team.items()):
        family.add_metric((team,), value)
    return family


def _time_over_bound(rows: QuerySet[Deployment]) -> Metric:
    complete = rows.filter(state=DeploymentState.COMPLETE, bound_ms__gt=0, started_ms__isnull=False)
    ratios: dict[str, list[float]] = defaultdict(list)
    times: Any = complete.values_list("team", "bound_ms", "started_ms", "finished_ms")
    for team, bound, started, finished in times:
        ratios[team].append((finished - started) / bound)
    family = HistogramMetricFamily(
        f"{PREFIX}_time_over_bound",
        "Time of complete deployments, divided by the lower bound of every strategy.",
        labels=("team",),
    )
    for team, values in sorted(ratios.items()):
        family.add_metric((team,), _buckets(values), sum(values))
    return family


def _buckets(values: Collection[float]) -> list[tuple[str, float]]:
    """Returns each upper bound with the count of values at or below it, the last without a bound."""
    counts = [(str(bound), float(sum(value <= bound for value in values))) for bound in RATIOS]
    return [*counts, ("+Inf", float(len(values)))]
