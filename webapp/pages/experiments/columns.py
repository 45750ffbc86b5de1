"""The columns of a table of runs: what a reader may choose, and what the choice is called in an address.

`params.lr`, `tags.stage`, `metrics.val/loss` (the best value), `metrics.val/loss:last`, and attributes such as `state`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from platform_core.experiments.comparison import direction, rule_of

CHOICES_OF_METRIC = ("best", "last", "min", "max")
MOST_COLUMNS = 40
_PLAIN = re.compile(r"[\w./:@-]+")

# attribute → its heading, and what the search calls it ("" where it cannot be sorted by)
_ATTRIBUTES = {
    "state": ("State", "state"),
    "owner": ("Owner", "owner"),
    "duration": ("Duration", "duration"),
    "started": ("Started", "start_time"),
    "created": ("Created", "created"),
    "ended": ("Ended", "end_time"),
    "group": ("Group", "group"),
    "source": ("Source", "source"),
    "tags": ("Tags", ""),
    "cost": ("Cost", "cost"),
    "gpu_hours": ("GPU-hours", "gpu_hours"),
    "gpu_type": ("GPU type", "gpu_type"),
    "mfu": ("MFU", "mfu"),
    "utilisation": ("GPU utilisation", "utilisation"),
    "tokens_per_second": ("Tokens/s", "tokens_per_second"),
    "step_seconds": ("Step time", "step_seconds"),
    "data_wait": ("Data wait", "data_wait"),
    "memory_bytes": ("Peak memory", "memory_bytes"),
}
EFFICIENCY = ("mfu", "utilisation", "tokens_per_second", "step_seconds", "data_wait", "memory_bytes")
_NUMERIC = {"duration", "started", "created", "ended", "cost", "gpu_hours", *EFFICIENCY}
_COSTS = {"cost", "gpu_hours"}
_STATISTICS = {"last": "metrics", "min": "lowest", "max": "highest"}  # as the search calls them
DEFAULT_LAST = ("duration", "started")


@dataclass(frozen=True, slots=True)
class Column:
    name: str  # in an address
    kind: str  # attribute, params, tags or metrics
    key: str  # of the parameter, the tag or the metric
    choice: str = ""  # of a metric: one of CHOICES_OF_METRIC

    @property
    def label(self) -> str:
        return _ATTRIBUTES[self.key][0] if self.kind == "attribute" else self.key

    @property
    def under(self) -> str:
        """The second line of the heading."""
        if self.kind == "metrics":
            return {"best": rule_of(self.key), "min": "lowest", "max": "highest"}.get(
                self.choice, self.choice
            )
        return {"params": "parameter", "tags": "tag"}.get(self.kind, "")

    @property
    def is_numeric(self) -> bool:
        return self.kind in ("params", "metrics") or self.key in _NUMERIC

    @property
    def needs_cost(self) -> bool:
        return self.kind == "attribute" and self.key in _COSTS

    @property
    def order(self) -> str:
        """What the search sorts by, "" where it cannot."""
        if self.kind == "attribute":
            return _ATTRIBUTES[self.key][1]
        prefix = _STATISTICS[self.statistic] if self.kind == "metrics" else self.kind
        return f"{prefix}.{quoted(self.key)}"

    @property
    def statistic(self) -> str:
        """Of a metric: last, min or max; "best" of one without a direction is its last value."""
        if self.choice == "best":
            return {-1: "min", 1: "max", 0: "last"}[direction(self.key)]
        return self.choice

    @property
    def best_first(self) -> str:
        """The direction in which sorting by the column begins."""
        better = direction(self.key) if self.kind == "metrics" else 0
        return "desc" if better > 0 or (self.is_numeric and self.kind == "attribute") else "asc"


def quoted(key: str) -> str:
    """A key as the filter takes it."""
    return key if _PLAIN.fullmatch(key) else f'"{key.replace(chr(34), chr(34) * 2)}"'


def column(name: str) -> Column | None:
    """None for what is no column."""
    if name in _ATTRIBUTES:
        return Column(name, "attribute", name)
    kind, _, key = name.partition(".")
    kind = {"parameters": "params"}.get(kind, kind)
    if not key or kind not in ("params", "tags", "metrics"):
        return None
    if kind != "metrics":
        return Column(f"{kind}.{key}", kind, key)
    metric, _, choice = key.rpartition(":")
    if metric and choice in CHOICES_OF_METRIC:
        return Column(name, kind, metric, choice)
    return Column(name, kind, key, "best")


def columns(names: Iterable[str]) -> list[Column]:
    """In the order asked for; what is no column is left out."""
    known = (column(name.strip()) for name in names)
    return list({each.name: each for each in known if each}.values())[:MOST_COLUMNS]


def attributes() -> list[Column]:
    return [Column(name, "attribute", name) for name in _ATTRIBUTES]


def by_default(params: Sequence[str], metrics: Sequence[str]) -> list[Column]:
    """What a table shows that nobody has arranged: state, metrics, the parameters that differ, time."""
    names = [
        "state",
        *(f"metrics.{key}" for key in metrics),
        *(f"params.{key}" for key in params),
        *DEFAULT_LAST,
    ]
    return columns(names)
