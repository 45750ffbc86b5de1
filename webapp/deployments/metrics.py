"""What distribution has done so far, as metrics: read from the rows at each scrape, so that no process counts alone."""

from collections import Counter, defaultdict
from collections.abc import Collection
from typing import Any

from django.db.models import Count, QuerySet, Sum

from platform_core.distribution.deployment import DeploymentState
from platform_core.monitoring.exposition import Family, Kind, Sample, histogram
from webapp.deployments.models import Deployment
from webapp.events import queries as events

RATIOS = (1.01, 1.02, 1.05, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
_SUMS = {
    "moved_bytes": ("moved_bytes_total", "Bytes that nodes received and verified."),
    "store_bytes": ("store_bytes_total", "Bytes that nodes pulled from the store themselves."),
    "refused_bytes": ("refused_bytes_total", "Bytes that arrived with another SHA-256 and were thrown away."),
    "retries": ("retries_total", "Times that a node had to ask again, or somebody else."),
}
_EVENTS = {
    "WorkerFailed": (
        "node_failures_total",
        "Nodes that failed, or were lost, while a deployment went to them.",
    ),
    "WorkerEvicted": ("evictions_total", "Copies that nodes gave up for room."),
    "DamagedBytesRefused": (
        "damaged_senders_total",
        "Senders of damaged bytes, as their receivers named them.",
    ),
}


def families(teams: Collection[str] | None) -> tuple[Family, ...]:
    """Of these teams; None is all of them."""
    rows = Deployment.objects.all()
    if teams is not None:
        rows = rows.filter(team__in=teams)
    return (
        _states(rows),
        _nodes(rows),
        *_sums(rows),
        *_events(teams),
        _over_the_bound(rows),
    )


def _family(name: str, help: str, kind: Kind, samples: Collection[Sample]) -> Family:
    return Family(f"trainmaster_deployment_{name}", help, kind, tuple(samples))


def _states(rows: QuerySet[Deployment]) -> Family:
    counts = rows.order_by().values_list("team", "state").annotate(Count("id"))
    samples = [Sample(count, {"team": team, "state": state}) for team, state, count in sorted(counts)]
    return Family("trainmaster_deployments", "Deployments by state.", Kind.GAUGE, tuple(samples))


def _nodes(rows: QuerySet[Deployment]) -> Family:
    counts: Counter[tuple[str, str]] = Counter()
    alike: Any = rows.order_by().values_list("team", "node_states").annotate(Count("id"))
    for team, states, deployments in alike:
        for state, nodes in states.items():
            counts[team, state] += nodes * deployments
    samples = [
        Sample(count, {"team": team, "state": state}) for (team, state), count in sorted(counts.items())
    ]
    return _family("nodes", "Nodes of deployments by what they are at.", Kind.GAUGE, samples)


def _sums(rows: QuerySet[Deployment]) -> list[Family]:
    sums = {f"all_{column}": Sum(column) for column in _SUMS}
    by_team: list[Any] = sorted(rows.order_by().values_list("team").annotate(**sums))
    return [
        _family(name, help, Kind.COUNTER, [Sample(row[place], {"team": row[0]}) for row in by_team])
        for place, (name, help) in enumerate(_SUMS.values(), start=1)
    ]


def _events(teams: Collection[str] | None) -> list[Family]:
    counts = events.counts(list(_EVENTS), None if teams is None else list(teams))
    return [
        _family(
            name,
            help,
            Kind.COUNTER,
            [
                Sample(count, {"team": team})
                for (kind, team), count in sorted(counts.items())
                if kind == event
            ],
        )
        for event, (name, help) in _EVENTS.items()
    ]


def _over_the_bound(rows: QuerySet[Deployment]) -> Family:
    complete = rows.filter(state=DeploymentState.COMPLETE, bound_ms__gt=0, started_ms__isnull=False)
    ratios: dict[str, list[float]] = defaultdict(list)
    times: Any = complete.values_list("team", "bound_ms", "started_ms", "finished_ms")
    for team, bound, began, ended in times:
        ratios[team].append((ended - began) / bound)
    samples = [
        sample for team in sorted(ratios) for sample in histogram(RATIOS, ratios[team], {"team": team})
    ]
    help = "Time of complete deployments, in times of the least that any strategy could take."
    return _family("time_over_bound", help, Kind.HISTOGRAM, samples)
