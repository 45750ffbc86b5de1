"""Runs side by side: what differs, how it went, what it cost."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from platform_core.experiments.comparison import MISSING, best_of, compared_metrics, differences, flatten
from platform_core.experiments.sections import in_order, section_of
from platform_core.experiments.states import RunState
from platform_core.units import (
    HOUR_MS,
    format_bytes,
    format_duration_ms,
    format_micro_dollars,
    format_number,
)
from webapp.experiments import queries
from webapp.experiments.comparison import config, reported, value_of
from webapp.experiments.models import Run
from webapp.pages.experiments import charts, compare_code, compare_parameters
from webapp.pages.experiments.compare_options import VIEWS, Options, Query, options_of
from webapp.pages.experiments.compare_runs import Ranking, address_of, ranking, text
from webapp.quotas import queries as quotas
from webapp.quotas.queries import JobCost

MOST_CHOICES = 200  # of runs to add
_MEASURES: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("mfu", "MFU", "{:.1%}".format),
    ("utilisation", "GPU utilisation", "{:.0%}".format),
    ("tokens_per_second", "tokens/s", format_number),
    ("step_seconds", "step time", lambda seconds: f"{seconds:.4g} s"),
    ("data_wait", "data wait", "{:.1%}".format),
    ("memory_bytes", "peak memory", lambda size: format_bytes(int(size))),
)


def differing_names(runs: Sequence[Run]) -> list[str]:
    """Returns the settings that differ. A run that failed before it reported a setting does not make it differ."""
    reported_values = (
        (difference.name, [value for value in difference.values if value is not MISSING])
        for difference in differences([config(run) for run in runs])
    )
    names = [name for name, values in reported_values if any(value != values[0] for value in values)]
    parameters = {name for run in runs for name in flatten(run.parameters)}
    return sorted(names, key=lambda name: (name not in parameters, name))


def run_lines(
    runs: Sequence[Run], params: Sequence[str], metrics: Sequence[str], now_ms: int
) -> list[dict[str, Any]]:
    """An experiment's table, in the order of the runs."""
    costs = quotas.costs_of_jobs([run.id for run in runs], now_ms)
    losses = charts.sparks(runs)
    columns = [_column(runs, key) for key in metrics]
    return [
        {
            **_line(run, params, costs.get(run.id)),
            "metrics": [column[place] for column in columns],
            "losses": losses.get(run.id, []),
        }
        for place, run in enumerate(runs)
    ]


def _line(run: Run, params: Sequence[str], cost: JobCost | None) -> dict[str, Any]:
    flat = flatten(config(run))
    ended = run.ended_ms
    return {
        "id": run.id,
        "name": run.name,
        "state": run.state,
        "user": run.owner_name,
        "started_ms": run.started_ms,
        "elapsed_ms": ended - run.started_ms if ended and run.started_ms else None,
        "params": [text(flat.get(name, MISSING)) for name in params],
        "gpu_ms": cost.gpu_ms if cost else 0,
        "micro_dollars": cost.micro_dollars if cost else 0,
        "tags": run.tags,
    }


def _column(runs: Sequence[Run], key: str) -> list[dict[str, Any]]:
    values = [value_of(run, key) for run in runs]
    best = best_of(key, values)
    return [{"value": value, "best": best is not None and value == values[best]} for value in values]


@dataclass(frozen=True, slots=True)
class ComparePage:
    runs: list[dict[str, Any]]  # id, name, url; in the order asked for
    sentence: str  # what differs
    options: Options
    drawing: str  # JSON, see static/js/chart-data.js
    curves: str  # the address of the values
    subjects: str  # of the live socket: runs that go on
    metrics: list[str]
    axes: list[str]  # metrics that x can be
    choices: list[dict[str, str]]  # other runs of the same experiments
    hidden: str  # ids of runs that are not drawn, separated by spaces
    ranking: Callable[[], Ranking]
    pinned: list[dict[str, Any]]
    sections: list[charts.ChartSection]
    differences: Callable[[], list[dict[str, Any]]]  # name; values: text, differs
    same: int  # settings that do not differ
    finals: Callable[[], list[dict[str, Any]]]  # name, rule; values: value, best
    totals: Callable[[], list[dict[str, Any]]]  # name, values
    picture: Callable[[], dict[str, Any]]  # see static/js/parallel.js
    importance: Callable[[], compare_parameters.Importance]
    pair: list[str]  # ids of the two runs whose code is compared
    made_of: Callable[[], compare_code.MadeOf | None]
    views: list[dict[str, str]]  # name, title


_TITLES = {"charts": "Charts", "parameters": "Parameters", "table": "Table", "code": "Code and data"}


def page(runs: Sequence[Run], query: Query, now_ms: int) -> ComparePage:
    """Each part is worked out when the view that shows it is asked for."""
    names = in_order({key for run in runs for key in run.summaries})
    options = options_of(query, names)
    configs = [config(run) for run in runs]
    differing = [difference.name for difference in differences(configs)]
    labels = charts.labels_of(runs)
    together = {"group": "seeds"} if options.grouped else {}
    pair = _pair(runs, query)
    return ComparePage(
        runs=[{"id": run.id, "name": labels[run.id].name, "url": address_of(run)} for run in runs],
        sentence=_sentence(runs, differing),
        options=options,
        drawing=json.dumps(options.drawing),
        curves=charts.address_of(runs, options.x, **together),
        subjects=" ".join(charts.subject_of(run) for run in runs if run.ended_ms is None),
        metrics=names,
        axes=[key for key in names if section_of(key) != "system"],
        choices=_choices(runs),
        hidden=str(query.get("hide", "")).replace(",", " "),
        ranking=lambda: ranking(runs, options, differing_names(runs)),
        pinned=[charts.chart(key) for key in options.pins],
        sections=charts.sections([key for key in names if key not in options.pins], options.order),
        differences=lambda: _differences(configs, differing, query.get("all") == "1"),
        same=len({name for settings in configs for name in flatten(settings)}) - len(differing),
        finals=lambda: _finals(runs),
        totals=lambda: _totals(runs, now_ms),
        picture=lambda: compare_parameters.picture(runs, options),
        importance=lambda: compare_parameters.importance(runs, options),
        pair=[run.id for run in pair],
        made_of=lambda: compare_code.made_of(*pair) if len(pair) == 2 else None,
        views=[{"name": name, "title": _TITLES[name]} for name in VIEWS],
    )


def _pair(runs: Sequence[Run], query: Query) -> list[Run]:
    """The runs named by a= and b=, else the first two."""
    by_id = {run.id: run for run in runs}
    named = [by_id.get(str(query.get(name))) for name in ("a", "b")]
    rest = [run for run in runs if run not in named]
    return [run or rest.pop(0) for run in named] if len(runs) > 1 else []


def _differences(
    configs: Sequence[Mapping[str, Any]], differing: Sequence[str], every: bool
) -> list[dict[str, Any]]:
    flat = [flatten(settings) for settings in configs]
    names = sorted({name for settings in flat for name in settings}) if every else differing
    return [
        {
            "name": name,
            "values": [
                {"text": text(settings.get(name, MISSING)), "differs": name in differing} for settings in flat
            ],
        }
        for name in names
    ]


def _finals(runs: Sequence[Run]) -> list[dict[str, Any]]:
    return [
        {
            "name": metric.name,
            "rule": metric.rule,
            "values": [
                {"value": value, "best": index == metric.best} for index, value in enumerate(metric.values)
            ],
        }
        for metric in compared_metrics([reported(run) for run in runs])
    ]


def _sentence(runs: Sequence[Run], names: Sequence[str]) -> str:
    if len(runs) < 2:
        return "Choose two or more runs to see what differs between them."
    if not names:
        return "No recorded setting differs between these runs."
    rest = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return f"Differences: {', '.join(name.replace('_', ' ') for name in names[:6])}{rest}."


def _choices(runs: Sequence[Run]) -> list[dict[str, str]]:
    """Other runs of the same experiments, to add."""
    chosen = {run.id for run in runs}
    others = [
        run for experiment in sorted({run.experiment_id for run in runs}) for run in queries.runs(experiment)
    ]
    return [{"id": run.id, "name": run.name} for run in others if run.id not in chosen][:MOST_CHOICES]


def _totals(runs: Sequence[Run], now_ms: int) -> list[dict[str, Any]]:
    costs = quotas.costs_of_jobs([run.id for run in runs], now_ms)
    held = [
        (costs[run.id].gpu_ms, costs[run.id].micro_dollars) if run.id in costs else (0, 0) for run in runs
    ]
    walls = [
        (run.ended_ms or now_ms) - run.started_ms
        if run.started_ms and run.state != RunState.PENDING
        else None
        for run in runs
    ]
    return [
        {
            "name": "wall time",
            "values": ["–" if wall is None else format_duration_ms(wall) for wall in walls],
        },
        {"name": "GPU-hours", "values": [format_number(gpu_ms / HOUR_MS) for gpu_ms, _ in held]},
        {"name": "cost", "values": [format_micro_dollars(dollars) for _, dollars in held]},
        *_efficiency(runs),
    ]


def _efficiency(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A row for each measure that any of the runs has."""
    rows = [(label, [getattr(run, name) for run in runs], form) for name, label, form in _MEASURES]
    return [
        {"name": label, "values": ["–" if value is None else form(value) for value in values]}
        for label, values, form in rows
        if any(value is not None for value in values)
    ]


def as_csv(page: ComparePage) -> str:
    """The table of the page: a row for each setting, metric and total, a column for each run."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(["", *(run["name"] for run in page.runs)])
    writer.writerow(["id", *(run["id"] for run in page.runs)])
    for row in page.differences():
        writer.writerow([row["name"], *(cell["text"] for cell in row["values"])])
    for row in page.finals():
        writer.writerow([f"{row['rule']} {row['name']}", *(cell["value"] for cell in row["values"])])
    for row in page.totals():
        writer.writerow([row["name"], *row["values"]])
    return text.getvalue()
