"""What a reader chose on the comparison page, read from its address: the address restores the page."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from platform_core.experiments.choices import CHOICES, DIRECTIONS
from platform_core.experiments.comparison import headline
from platform_core.experiments.names import is_metric
from platform_core.experiments.series import KINDS

VIEWS = ("charts", "parameters", "table", "code")
CLIPS = (0, 1, 5, 10)


Query = Mapping[str, Any]  # of the address


@dataclass(frozen=True, slots=True)
class Options:
    view: str
    x: str  # see `curves.axis_of`
    kind: str  # of smoothing
    strength: float  # of smoothing, 0 is none
    scale: str
    xscale: str
    clip: int  # percent of the values that may lie outside a chart at either end
    metric: str  # the runs are ranked by
    by: str  # which value of it counts
    better: str
    grouped: bool
    pins: tuple[str, ...]  # metrics that stand first
    wide: tuple[str, ...]  # metrics whose charts take the whole width
    order: tuple[str, ...]  # metrics of sections that somebody arranged

    @property
    def drawing(self) -> dict[str, Any]:
        """The data-drawing of static/js/chart-data.js."""
        names = ("kind", "strength", "scale", "xscale", "clip")
        return {name: value for name, value in asdict(self).items() if name in names}


def options_of(query: Query, metrics: Sequence[str]) -> Options:
    """Values that are not known are replaced by the default: an old link still opens the page."""
    chosen = query.get("metric", "")
    metric = chosen if chosen in metrics else headline([key for key in metrics if is_metric(key)])
    return Options(
        view=_one_of(query, "view", VIEWS),
        x=_axis(str(query.get("x", "")), metrics),
        kind=_one_of(query, "kind", KINDS),
        strength=_strength(str(query.get("smooth", ""))),
        scale=_one_of(query, "scale", ("linear", "log")),
        xscale=_one_of(query, "xscale", ("linear", "log")),
        clip=int(_one_of(query, "clip", [str(clip) for clip in CLIPS])),
        metric=metric,
        by=_one_of(query, "by", CHOICES),
        better=_one_of(query, "better", DIRECTIONS),
        grouped=query.get("group") == "seeds",
        pins=_keys(query, "pins", metrics, metric),
        wide=_keys(query, "wide", metrics, metric),
        order=_keys(query, "order", metrics, ""),
    )


def _one_of(query: Query, name: str, choices: Sequence[str]) -> str:
    value = query.get(name, "")
    return value if value in choices else choices[0]


def _keys(query: Query, name: str, metrics: Sequence[str], default: str) -> tuple[str, ...]:
    """Without a choice the metric that the runs are ranked by; "none" is a choice too."""
    text = str(query.get(name, "") or default)
    return tuple(dict.fromkeys(key for key in text.split(",") if key in metrics))


def _axis(text: str, metrics: Sequence[str]) -> str:
    if text.startswith("metric:") and text.removeprefix("metric:") in metrics:
        return text
    return {"time": "relative", "relative": "relative", "wall": "wall"}.get(text, "step")


def _strength(text: str) -> float:
    try:
        return min(0.99, max(0.0, float(text)))
    except ValueError:
        return 0.0
