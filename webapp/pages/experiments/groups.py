"""The table of runs with one line a group: what its runs have in common, and the bands of their metrics."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from platform_core.experiments.groups import Band, band, common
from webapp.accounts.permissions import Actor
from webapp.experiments import queries
from webapp.experiments.models import Run
from webapp.metrics import queries as metrics
from webapp.pages.experiments import run_table
from webapp.pages.experiments.columns import EFFICIENCY, Column, column
from webapp.pages.experiments.selection import Selection, scope

MOST_GROUPS = 500  # shown
GROUPABLE = ("state", "owner", "group", "source", "gpu_type")


@dataclass(frozen=True, slots=True)
class GroupCell:
    column: Column
    band: Band | None  # of a metric
    value: Any  # that all runs of the group have; None where they differ


@dataclass(frozen=True, slots=True)
class Group:
    label: str
    runs: int
    filter: str  # that finds its runs
    cells: Sequence[GroupCell]


@dataclass(frozen=True, slots=True)
class Groups:
    by: Column
    groups: Sequence[Group]
    more: int  # that are not shown


def groups(actor: Actor, selection: Selection, by: str, columns: Sequence[Column]) -> Groups | None:
    """None where `by` is nothing that runs can be grouped by. The largest groups first, or as the order says."""
    field = column(by)
    if field is None or (field.kind == "attribute" and field.key not in GROUPABLE) or field.kind == "metrics":
        return None
    rows = queries.matching_runs(actor, **scope(selection))
    runs = list(rows.select_related("owner").defer("lineage", "description"))
    members: dict[Hashable, list[Run]] = defaultdict(list)
    for run in runs:
        members[run_table.value_of(run, field, None, 0)].append(run)
    keys = sorted({each.key for each in columns if each.kind == "metrics"})
    summaries = metrics.summaries((run.id for run in runs), keys) if keys else {}
    shown = [column for column in columns if not column.needs_cost]
    found = [_group(selection, field, value, of, shown, summaries) for value, of in members.items()]
    ordered = _sorted(found, selection.order, shown)
    return Groups(field, ordered[:MOST_GROUPS], max(0, len(ordered) - MOST_GROUPS))


def _group(
    selection: Selection,
    field: Column,
    value: Any,
    runs: Sequence[Run],
    columns: Sequence[Column],
    summaries: run_table.Summaries,
) -> Group:
    name = field.order
    condition = f"{name} IS NULL" if value in (None, "") else f"{name} = {_text(value)}"
    return Group(
        label="–" if value in (None, "") else str(value),
        runs=len(runs),
        filter=f"({selection.filter}) and {condition}" if selection.filter.strip() else condition,
        cells=[_cell(column, runs, summaries) for column in columns],
    )


def _text(value: Any) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _cell(column: Column, runs: Sequence[Run], summaries: run_table.Summaries) -> GroupCell:
    if column.kind == "metrics":
        values = [run_table.metric_value(summaries.get(run.id, {}).get(column.key), column) for run in runs]
        return GroupCell(column, band(values), None)
    if column.kind == "attribute" and column.key in EFFICIENCY:
        return GroupCell(column, band([getattr(run, column.key) for run in runs]), None)
    return GroupCell(column, None, common([run_table.value_of(run, column, None, 0) for run in runs]))


def _sorted(found: Sequence[Group], order: str, columns: Sequence[Column]) -> list[Group]:
    name, _, direction = order.rpartition(" ") if order.endswith((" asc", " desc")) else (order, "", "asc")
    place = next((place for place, column in enumerate(columns) if name and column.order == name), None)
    if place is None or columns[place].kind != "metrics":
        return sorted(found, key=lambda group: (-group.runs, group.label))
    sign = -1 if direction == "desc" else 1

    def key(group: Group) -> tuple[bool, float, str]:
        value = group.cells[place].band
        return value is None, sign * value.mean if value else 0.0, group.label

    return sorted(found, key=key)
