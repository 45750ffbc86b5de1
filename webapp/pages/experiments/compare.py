"""Runs side by side: what differs, how it went, what it cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from platform_core.experiments.comparison import (
    MISSING,
    best_of,
    compared_metrics,
    differences,
    flatten,
    headline,
    rule_of,
)
from platform_core.experiments.states import RunState
from platform_core.units import HOUR_MS, format_duration_ms, format_micro_dollars, format_number
from webapp.experiments import queries
from webapp.experiments.comparison import config, metric_names, ranked, reported, value_of
from webapp.experiments.models import Run
from webapp.pages.experiments import charts
from webapp.quotas import queries as quotas
from webapp.quotas.queries import JobCost


def differing_names(runs: Sequence[Run]) -> list[str]:
    """Returns the settings that differ. A run that failed before it reported a setting does not make it differ."""
    reported_values = (
        (difference.name, [value for value in difference.values if value is not MISSING])
        for difference in differences([config(run) for run in runs])
    )
    names = [name for name, values in reported_values if any(value != values[0] for value in values)]
    parameters = {name for run in runs for name in flatten(run.parameters)}
    return sorted(names, key=lambda name: (name not in parameters, name))


def _text(value: object) -> str:
    if value is MISSING:
        return "–"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


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
        "params": [_text(flat.get(name, MISSING)) for name in params],
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
    runs: list[dict[str, Any]]  # id, name, mark ("c1" to "c5"), state, user; in the order of the series
    sentence: str  # what differs
    options: dict[str, Any]  # x, smooth, scale, metric
    metrics: list[str]
    choices: list[dict[str, str]]  # other runs of the same experiments
    charts: list[dict[str, Any]]  # see charts.of_runs
    not_drawn: list[dict[str, str]]  # metrics without a chart here, and where they are drawn
    differences: list[dict[str, Any]]  # name; values: text, differs
    same: int  # settings that do not differ
    finals: list[dict[str, Any]]  # name, rule; values: value, best
    totals: list[dict[str, Any]]  # name, values
    ranking: list[dict[str, str]]  # best result first
    ranked_by: str  # "lowest val/loss"


def page(runs: Sequence[Run], query: Mapping[str, Any], now_ms: int) -> ComparePage:
    """The query says how the curves are drawn."""
    metrics = metric_names(runs)
    drawing = charts.Drawing(
        x="time" if query.get("x") == "time" else "step",
        weight=_weight(query.get("smooth", "")),
        scale="log" if query.get("scale") == "log" else "linear",
    )
    chosen = query.get("metric", "") if query.get("metric") in metrics else ""
    shown = [chosen] if chosen else _hero_first(metrics)[: charts.MOST_CHARTS]
    configs = [config(run) for run in runs]
    differing = differences(configs)
    every = query.get("all") == "1"
    names = sorted({name for settings in configs for name in flatten(settings)})
    rows = {difference.name: difference.values for difference in differing}
    flat = [flatten(settings) for settings in configs]
    listed = names if every else [name for name in names if name in rows]
    rank_by = chosen or headline(metrics)
    return ComparePage(
        runs=[
            {
                "id": run.id,
                "name": run.name,
                "mark": f"c{index % 5 + 1}",
                "state": run.state,
                "user": run.owner_name,
            }
            for index, run in enumerate(runs)
        ],
        sentence=_sentence(runs, [difference.name for difference in differing]),
        options={"x": drawing.x, "smooth": drawing.weight, "scale": drawing.scale, "metric": chosen},
        metrics=metrics,
        choices=_choices(runs),
        charts=charts.of_runs(runs, shown, drawing),
        not_drawn=charts.elsewhere(runs, [key for key in metrics if key not in shown]),
        differences=[
            {
                "name": name,
                "values": [
                    {"text": _text(settings.get(name, MISSING)), "differs": name in rows} for settings in flat
                ],
            }
            for name in listed
        ],
        same=len(names) - len(rows),
        finals=[
            {
                "name": metric.name,
                "rule": metric.rule,
                "values": [
                    {"value": value, "best": index == metric.best}
                    for index, value in enumerate(metric.values)
                ],
            }
            for metric in compared_metrics([reported(run) for run in runs])
        ],
        totals=_totals(runs, now_ms),
        ranking=_ranking(runs, rank_by, now_ms),
        ranked_by=f"{rule_of(rank_by)} {rank_by}" if rank_by else "",
    )


def _hero_first(metrics: Sequence[str]) -> list[str]:
    """The metric that the runs are judged by is the large chart."""
    hero = headline(metrics)
    return sorted(metrics, key=lambda key: key != hero)


def _weight(text: str) -> float:
    try:
        return min(0.99, max(0.0, float(text)))
    except ValueError:
        return 0.0


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
    return [{"id": run.id, "name": run.name} for run in others if run.id not in chosen][:50]


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
    ]


def _ranking(runs: Sequence[Run], key: str, now_ms: int) -> list[dict[str, str]]:
    """Best result first, with what it took."""
    having = ranked(runs, key)
    costs = quotas.costs_of_jobs([run.id for _, run in having], now_ms)
    lines = []
    for value, run in having:
        result = f"{value:.4g}"
        if run.id in costs:
            cost = costs[run.id]
            result += f" · {cost.gpu_ms / HOUR_MS:.3g} GPU-h · {format_micro_dollars(cost.micro_dollars)}"
        lines.append({"name": run.name, "value": result})
    return lines
