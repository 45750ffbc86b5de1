"""Rows of a table of runs under chosen columns: each source of values is asked once, and only if a column needs it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from platform_core.experiments.comparison import MISSING, best_of, flatten
from platform_core.experiments.names import is_own_tag
from webapp.experiments.models import Run
from webapp.metrics.values import Summary
from webapp.pages.experiments.columns import Column
from webapp.quotas import queries as quotas
from webapp.quotas.queries import JobCost

Summaries = Mapping[str, Mapping[str, Summary]]


@dataclass(frozen=True, slots=True)
class Cell:
    column: Column
    value: Any  # text, a number, milliseconds …, as `column.key` says; None without one
    is_best: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    url: str
    name: str
    state: str
    owner: str
    is_archived: bool
    started_ms: int | None
    ended_ms: int | None
    tags: Mapping[str, str]
    cells: Sequence[Cell]


def rows(runs: Sequence[Run], columns: Sequence[Column], now_ms: int) -> list[Row]:
    """In the order of the runs, whose summaries `queries.with_summaries` has read if a column is a metric."""
    jobs = [run.id for run in runs if run.job_id]
    costs = quotas.costs_of_jobs(jobs, now_ms) if any(each.needs_cost for each in columns) else {}
    by_column = [_cells(column, runs, costs, now_ms) for column in columns]
    return [
        Row(
            id=run.id,
            url=reverse("runs:detail", args=[run.id]),
            name=run.name or run.id[:8],
            state=run.state,
            owner=run.owner_name,
            is_archived=run.archived_ms is not None,
            started_ms=run.started_ms,
            ended_ms=run.ended_ms,
            tags=_own_tags(run),
            cells=[cells[place] for cells in by_column],
        )
        for place, run in enumerate(runs)
    ]


def metric_value(summary: Summary | None, column: Column) -> float | None:
    """The value of a metric that the column asks for."""
    if summary is None:
        return None
    return {"last": summary.last, "min": summary.min, "max": summary.max}[column.statistic]


def _cells(
    column: Column,
    runs: Sequence[Run],
    costs: Mapping[str, JobCost],
    now_ms: int,
) -> list[Cell]:
    if column.kind == "metrics":
        values = [metric_value(run.summaries.get(column.key), column) for run in runs]
        best = best_of(column.key, values)
        return [Cell(column, value, best is not None and value == values[best]) for value in values]
    return [Cell(column, value_of(run, column, costs.get(run.id), now_ms)) for run in runs]


def value_of(run: Run, column: Column, cost: JobCost | None, now_ms: int) -> Any:
    """Of a parameter, a tag or an attribute."""
    if column.kind == "params":
        return text_of(flatten(run.parameters).get(column.key, MISSING))
    if column.kind == "tags":
        return run.tags.get(column.key)
    match column.key:
        case "duration":
            return (run.ended_ms or now_ms) - run.started_ms if run.started_ms else None
        case "started" | "ended" | "created":
            return getattr(run, f"{column.key}_ms")
        case "owner":
            return run.owner_name
        case "cost":
            return cost.micro_dollars if cost else None
        case "gpu_hours":
            return cost.gpu_ms if cost else None
        case "tags":
            return " ".join(
                f"{name}={value}" if value else name for name, value in sorted(_own_tags(run).items())
            )
        case attribute:
            return getattr(run, attribute)


def _own_tags(run: Run) -> dict[str, str]:
    return {name: value for name, value in run.tags.items() if is_own_tag(name)}


def text_of(value: object) -> str | None:
    if value is MISSING:
        return None
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)
