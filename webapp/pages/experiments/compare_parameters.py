"""The parameters of runs against their result: parallel coordinates, scatter plots, and how much each explains."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from platform_core.experiments.settings_table import Axis, axes, metric_axis
from webapp.experiments import importance as forests
from webapp.experiments.models import Run
from webapp.pages.experiments.charts import labels_of
from webapp.pages.experiments.compare_options import Options
from webapp.pages.experiments.compare_runs import values_of

MOST_AXES = 30
BAR_WIDTH = 100.0  # of the whole share, in the units of the picture


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    width: float  # of BAR_WIDTH
    low: float
    high: float
    words: str  # "62 % ± 4 %"


@dataclass(frozen=True, slots=True)
class Importance:
    bars: list[Bar]
    sentence: str


def parameter_axes(runs: Sequence[Run]) -> tuple[Axis, ...]:
    """The parameters that differ; what a job was given beside them, such as GPUs, is among them."""
    return axes([run.parameters for run in runs])[:MOST_AXES]


def picture(runs: Sequence[Run], options: Options) -> dict[str, Any]:
    """The values of static/js/parallel.js."""
    labels = labels_of(runs)
    shown = [*parameter_axes(runs)]
    if options.metric:
        shown.append(metric_axis(options.metric, values_of(runs, options)))
    return {
        "axes": [asdict(axis) for axis in shown],
        "result": options.metric,
        "runs": [{"id": run.id, **asdict(labels[run.id])} for run in runs],
    }


def importance(runs: Sequence[Run], options: Options) -> Importance:
    if not options.metric:
        return Importance([], "Choose a metric to rank by; the importance is of the parameters for it.")
    return explained(forests.importance(parameter_axes(runs), values_of(runs, options)))


def explained(result: forests.Importance, noun: str = "runs") -> Importance:
    """What the forest found, in bars and a sentence."""
    if result.problem:
        return Importance([], result.problem)
    sentence = (
        f"Random forest on {result.runs} {noun}; it predicts {max(0.0, result.explained):.0%} of the variation in "
        f"{noun} that it has not seen. The line at the end of a bar is one standard deviation."
    )
    if result.explained < 0.2:
        sentence += " That is little: take the order as a hint only."
    return Importance([_bar(bar) for bar in result.bars], sentence)


def _bar(bar: forests.Bar) -> Bar:
    return Bar(
        name=bar.name,
        width=round(bar.share * BAR_WIDTH, 2),
        low=round(max(0.0, bar.share - bar.spread) * BAR_WIDTH, 2),
        high=round(min(1.0, bar.share + bar.spread) * BAR_WIDTH, 2),
        words=f"{bar.share:.0%} ± {bar.spread:.0%}",
    )
