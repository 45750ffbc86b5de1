"""Where metric values are kept: the one interface that another store would have to offer.

append   idempotent; a step of a later attempt replaces that of an earlier one, never the other way round
series   points of one metric in order of steps
curves   the same of many runs at once
keys     the metrics of a run
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from webapp.experiments.models import MetricPoint


@dataclass(frozen=True, slots=True)
class Point:
    key: str
    step: int
    value: float
    at_ms: int


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


def curves(run_ids: Iterable[str], key: str) -> dict[str, list[tuple[int, float]]]:
    """(step, value) in order of steps, by run; a run without the metric has no curve."""
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    rows = MetricPoint.objects.filter(run__in=list(run_ids), key=key).order_by("run", "step")
    for run_id, step, value in rows.values_list("run", "step", "value").iterator():
        found[run_id].append((step, value))
    return found


def keys(run_ids: Iterable[str]) -> list[str]:
    return list(
        MetricPoint.objects.filter(run__in=list(run_ids))
        .values_list("key", flat=True)
        .distinct()
        .order_by("key")
    )
