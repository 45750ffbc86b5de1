"""The list of runs beside the charts: best first, each with its look, its state and the value that counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from django.urls import reverse

from platform_core.experiments.choices import better, chosen_value, ranked, rule
from platform_core.experiments.comparison import MISSING, flatten
from platform_core.experiments.states import ENDED
from webapp.experiments import curves
from webapp.experiments.comparison import config, reported
from webapp.experiments.models import Run
from webapp.pages.experiments.charts import Label, group_label, labels_of
from webapp.pages.experiments.compare_options import Options

DEFAULT_WEIGHT = 0.9  # of the smoothed value, where the curves are not smoothed
MOST_NAMED = 3  # differing parameters under a name


@dataclass(frozen=True, slots=True)
class RunLine:
    id: str  # of a group: of its first run
    url: str
    label: Label
    swatch: str  # of static/css/series.css: "run-3"
    state: str
    owner: str
    value: float | None  # that counts, of a group the median
    spread: str  # of a group: the least and the greatest
    is_best: bool
    settings: str  # that differ, in short
    ids: list[str]


@dataclass(frozen=True, slots=True)
class Ranking:
    lines: list[RunLine]
    title: str  # "lowest val/loss"
    explained: str  # how the value was chosen, where that needs words


def values_of(runs: Sequence[Run], options: Options) -> list[float | None]:
    """The value that counts of each run, None without one."""
    key, smoothed = options.metric, dict[str, float]()
    if options.by == "smoothed" and key:
        smoothed = curves.smoothed_last(runs, key, _weight(options))
    values = []
    for run in runs:
        of_run = reported(run).get(key)
        values.append(chosen_value(key, options.by, of_run, smoothed.get(run.id)) if of_run else None)
    return values


def _weight(options: Options) -> float:
    return options.strength if options.kind == "exponential" and options.strength else DEFAULT_WEIGHT


def ranking(runs: Sequence[Run], options: Options, differing: Sequence[str]) -> Ranking:
    values = dict(zip((run.id for run in runs), values_of(runs, options), strict=True))
    labels = labels_of(runs)
    groups = curves.seed_groups(runs) if options.grouped else [(run,) for run in runs]
    known = [[value for run in group if (value := values[run.id]) is not None] for group in groups]
    middles = [median(of_group) if of_group else None for of_group in known]
    sign = better(options.metric, options.by, options.better) if options.metric else 0
    order = ranked(middles, sign)
    told_apart = len({middle for middle in middles if middle is not None}) > 1
    lines = [
        RunLine(
            id=groups[place][0].id,
            url=address_of(groups[place][0]),
            label=group_label(groups[place], labels),
            swatch=labels[groups[place][0].id].swatch,
            state=_state(groups[place]),
            owner=groups[place][0].owner_name,
            value=middles[place],
            spread=_spread(known[place]) if len(groups[place]) > 1 else "",
            is_best=bool(sign) and told_apart and place == order[0],
            settings=_settings(groups[place][0], differing),
            ids=[run.id for run in groups[place]],
        )
        for place in (order if options.metric else range(len(groups)))
    ]
    title = f"{rule(options.metric, options.by)} {options.metric}" if options.metric else ""
    weight = f"exponential average, weight {_weight(options):g}" if options.by == "smoothed" else ""
    return Ranking(lines, title, weight)


def address_of(run: Run) -> str:
    return reverse("jobs:detail" if run.job_id else "runs:detail", args=[run.id])


def _state(group: Sequence[Run]) -> str:
    """Of a group, what goes on as long as any of it does."""
    return next((run.state for run in group if run.state not in ENDED), group[0].state)


def _spread(values: Sequence[float]) -> str:
    return f"{min(values):.4g} to {max(values):.4g} of {len(values)} runs" if values else ""


def _settings(run: Run, differing: Sequence[str]) -> str:
    flat = flatten(config(run))
    given = [(name, flat[name]) for name in differing if flat.get(name, MISSING) is not MISSING]
    return " · ".join(f"{name.rpartition('.')[2]} {_short(value)}" for name, value in given[:MOST_NAMED])


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else text(value)


def text(value: Any) -> str:
    if value is MISSING:
        return "–"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)
