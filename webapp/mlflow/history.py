"""The values of a metric over time: by page, and thinned out for charts."""

from typing import Any

import numpy as np

from webapp.experiments.models import Run
from webapp.metrics import queries as metrics
from webapp.metrics.values import Points
from webapp.mlflow import limits, paging, runs, shapes
from webapp.mlflow.endpoint import Call
from webapp.mlflow.errors import MlflowError, invalid
from webapp.mlflow.fields import HINT

MOST_BULK = 25_000
MOST_RUNS = 100
MOST_A_RUN = 2_500
AT_ONCE = 100_000


def in_window(run_id: str, key: str, first: int | None, last: int | None) -> Points:
    """The points of these steps, both ends among them, in the order of step, time and value."""
    parts: list[Points] = []
    cursor = None if first is None else f"{first}.{-(2**63)}.0"
    while True:
        points, cursor = metrics.history(run_id, key, after=cursor, limit=AT_ONCE)
        parts.append(points)
        if cursor is None or (last is not None and points.steps[-1] > last):
            break
    steps, values, times = (
        np.concatenate([np.asarray(getattr(part, name), kind) for part in parts])
        for name, kind in (("steps", np.int64), ("values", np.float64), ("times_ms", np.int64))
    )
    end = len(steps) if last is None else int(np.searchsorted(steps, last, "right"))
    return Points(key, steps[:end], values[:end], times[:end])


def _rows(points: Points, places: Any = slice(None), **more: str) -> list[dict[str, Any]]:
    steps, values, times = (
        np.asarray(column)[places].tolist() for column in (points.steps, points.values, points.times_ms)
    )
    return [
        {"key": points.key, "value": shapes.number(value), "timestamp": time, "step": step, **more}
        for step, value, time in zip(steps, values, times, strict=True)
    ]


def get(call: Call) -> dict[str, Any]:
    run_id, size = runs.run_id_of(call), call["max_results"]
    if size is not None and size <= 0:
        raise invalid(
            f"Invalid value {size} for parameter 'max_results' supplied. It must be a positive integer."
        )
    start = paging.offset_of(call["page_token"])
    if not _there(call, [run_id]):  # MLflow knows no metric of it, rather than no run
        return {}
    end = None if size is None else start + size
    points, total = metrics.by_time(run_id, call["metric_key"], start, end)
    token = paging.token_of(end) if end is not None and end < total else None
    return paging.answer("metrics", _rows(points), token)


def bulk(call: Call) -> dict[str, Any]:
    run_ids = call["run_id"]
    if not run_ids:
        raise invalid("GetMetricHistoryBulk request must specify at least one run_id.")
    _require_few(run_ids, "GetMetricHistoryBulk request cannot specify more than")
    if call["metric_key"] is None:
        raise invalid("GetMetricHistoryBulk request must specify a metric_key.")
    wanted = call["max_results"]
    size = MOST_BULK if wanted is None else min(max(wanted, 0), MOST_BULK)
    rows: list[dict[str, Any]] = []
    for run_id in sorted({row.id for row in _there(call, run_ids)}):
        points, _ = metrics.by_time(run_id, call["metric_key"], 0, size - len(rows))
        rows += _rows(points, run_id=run_id)
    return {"metrics": rows}


def _there(call: Call, run_ids: list[str]) -> list[Run]:
    """Those of the runs that there are for the caller."""
    found = []
    for run_id in run_ids:
        try:
            found.append(runs.find(call, run_id))
        except MlflowError as error:
            if error.code != "RESOURCE_DOES_NOT_EXIST":
                raise
    return found


def _require_few(run_ids: list[str], sentence: str) -> None:
    if len(run_ids) > MOST_RUNS:
        raise invalid(f"{sentence} {MOST_RUNS} run_ids. Received {len(run_ids)} run_ids.")


def bulk_interval(call: Call) -> dict[str, Any]:
    """At most so many points a run, evenly spread, the first and the last among them."""
    if not call["run_ids"]:
        raise limits.lacking("run_ids")
    _require_few(call["run_ids"], "GetMetricHistoryBulkInterval request must specify at most")
    first, last, size = call["start_step"], call["end_step"], call["max_results"]
    if size is not None and not 1 <= size <= MOST_A_RUN:
        raise invalid(f"max_results must be between 1 and {MOST_A_RUN}.{HINT}")
    if (first is None) != (last is None):
        raise invalid("If either start step or end step are specified, both must be specified.")
    if first is not None and first > last:
        raise invalid(
            f"end_step must be greater than start_step. Found start_step={first} and end_step={last}."
        )
    rows: list[dict[str, Any]] = []
    for row in _there(call, call["run_ids"]):
        points = in_window(row.id, call["metric_key"], first, last)
        rows += _rows(points, _spread(len(points.steps), size or MOST_A_RUN), run_id=row.id)
    return {"metrics": rows} if rows else {}


def _spread(count: int, most: int) -> Any:
    """The first of each of so many equal parts, as MLflow chooses them, and the last of all."""
    if count <= most:
        return slice(None)
    starts = np.cumsum([0, *(count // most + (part < count % most) for part in range(most - 1))])
    starts[-1] = count - 1
    return starts
