"""Where metric values are kept: the one interface that another store would have to offer.

append   idempotent; a step of a later attempt replaces that of an earlier one, never the other way round
series   points of one metric in order of steps
sampled  curves of one metric of many runs, thinned where the points are
keys     the metrics of a run
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from django.db import connection

from webapp.experiments.models import MetricPoint


@dataclass(frozen=True, slots=True)
class Point:
    key: str
    step: int
    value: float
    at_ms: int


@dataclass(frozen=True, slots=True)
class Curve:
    """Reported points of a run, and for each the mean and the number of the points that it stands for."""

    x: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    means: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)


Axis = Literal["step", "at_ms"]

_UPSERT = """
INSERT INTO experiments_metricpoint (run_id, key, step, value, at_ms, attempt)
SELECT %s, key, step, value, at_ms, %s
FROM unnest(%s::text[], %s::bigint[], %s::float8[], %s::bigint[]) AS point (key, step, value, at_ms)
ON CONFLICT (run_id, key, step) DO UPDATE
SET value = EXCLUDED.value, at_ms = EXCLUDED.at_ms, attempt = EXCLUDED.attempt
WHERE experiments_metricpoint.attempt <= EXCLUDED.attempt
"""


def append(run_id: str, attempt: int, points: Sequence[Point]) -> None:
    newest = {(point.key, point.step): point for point in points}  # one statement may touch a row only once
    rows = list(newest.values())
    columns: list[list[Any]] = [
        [p.key for p in rows],
        [p.step for p in rows],
        [p.value for p in rows],
        [p.at_ms for p in rows],
    ]
    with connection.cursor() as cursor:
        cursor.execute(_UPSERT, [run_id, attempt, *columns])


def series(run_id: str, key: str, after_step: int | None = None) -> list[tuple[int, float, int]]:
    """(step, value, at_ms) in order of steps."""
    rows = MetricPoint.objects.filter(run=run_id, key=key).order_by("step")
    if after_step is not None:
        rows = rows.filter(step__gt=after_step)
    return list(rows.values_list("step", "value", "at_ms"))


def all_series(
    run_id: str, key: str | None = None, after_step: int | None = None
) -> dict[str, list[tuple[int, float, int]]]:
    """The series of every metric of a run, or of the one named, in one query."""
    rows = MetricPoint.objects.filter(run=run_id).order_by("key", "step")
    if key is not None:
        rows = rows.filter(key=key)
    if after_step is not None:
        rows = rows.filter(step__gt=after_step)
    points: dict[str, list[tuple[int, float, int]]] = defaultdict(list)
    for name, step, value, at_ms in rows.values_list("key", "step", "value", "at_ms").iterator():
        points[name].append((step, value, at_ms))
    return points


# The first and the last point are buckets of their own; between them each bucket gives its lowest and its highest
# point. The array carries place and x along with the value that is compared. Sums leave out what could overflow them.
_SAMPLED = """
WITH placed AS (
    SELECT run_id, {axis} AS x, value,
           row_number() OVER (PARTITION BY run_id ORDER BY {axis}, step) AS place,
           count(*) OVER (PARTITION BY run_id) AS points
    FROM experiments_metricpoint
    WHERE run_id = ANY(%(runs)s) AND key = %(key)s
), bucketed AS (
    SELECT run_id, x, value, place,
           CASE WHEN points <= %(most)s THEN place
                WHEN place = 1 THEN 0
                WHEN place = points THEN points
                ELSE 1 + (place - 2) * (%(most)s / 2 - 1) / (points - 2)
           END AS bucket
    FROM placed
)
SELECT run_id, count(*), avg(value) FILTER (WHERE abs(value) < 1e100),
       min(ARRAY[value, place, x]), max(ARRAY[value, -place, x])
FROM bucketed GROUP BY run_id, bucket ORDER BY run_id, bucket
"""


def sampled(run_ids: Iterable[str], key: str, most: int, axis: Axis = "step") -> dict[str, Curve]:
    """At most `most` reported points of each run, in order: both ends, and of each stretch the lowest and the highest.

    No spike is lost and none is invented. A run without the metric has no curve."""
    if most < 4:
        raise ValueError(f"{most} points cannot hold both ends and both extremes; ask for at least 4")
    curves: dict[str, Curve] = {}
    with connection.cursor() as cursor:
        parameters: dict[str, Any] = {"runs": list(run_ids), "key": key, "most": most}
        cursor.execute(_SAMPLED.format(axis=axis), parameters)
        for run_id, count, mean, lowest, highest in cursor:
            _add(curves.setdefault(run_id, Curve()), count, mean, lowest, highest)
    return curves


def _add(curve: Curve, count: int, mean: float | None, lowest: list[float], highest: list[float]) -> None:
    extremes = sorted({(lowest[1], lowest[2], lowest[0]), (-highest[1], highest[2], highest[0])})
    for number, (_, x, value) in enumerate(extremes):
        curve.x.append(int(x))
        curve.values.append(value)
        curve.means.append(value if mean is None or count == 1 else mean)
        curve.counts.append((count + number) // len(extremes))


def keys(run_ids: Iterable[str]) -> list[str]:
    return list(
        MetricPoint.objects.filter(run__in=list(run_ids))
        .values_list("key", flat=True)
        .distinct()
        .order_by("key")
    )
