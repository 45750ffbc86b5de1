"""Runs side by side: only what differs, and what came out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class Missing:
    """A run that lacks a setting differs from one that has it, even as null."""

    def __repr__(self) -> str:
        return "—"


MISSING = Missing()


@dataclass(frozen=True, slots=True)
class Difference:
    name: str
    values: tuple[object, ...]  # one a run, in the order of the runs; MISSING where it has none


@dataclass(frozen=True, slots=True)
class FinalMetric:
    name: str
    values: tuple[float | None, ...]
    lower_is_better: bool
    best: (
        int | None
    )  # index of the run with the best value; None when fewer than two have one, or all are equal


# What a metric's name says about its direction; everything else counts as "more is better".
_LESS_IS_BETTER = (
    "loss",
    "error",
    "perplexity",
    "ppl",
    "bits",
    "bpb",
    "mae",
    "mse",
    "rmse",
    "nll",
    "wer",
    "latency",
)


def flatten(config: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Nested settings under dotted names; lists stay whole. An empty mapping is a value of its own."""
    flat: dict[str, object] = {}
    for name, value in config.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{path}.")
        else:
            flat[path] = value
    return flat


def differences(configs: Sequence[Mapping[str, object]]) -> tuple[Difference, ...]:
    """Settings that are not the same in all runs, by name. One run differs from nothing."""
    flat = [flatten(config) for config in configs]
    names = sorted({name for config in flat for name in config})
    rows = (Difference(name, tuple(config.get(name, MISSING) for config in flat)) for name in names)
    return tuple(row for row in rows if not all(same(row.values[0], value) for value in row.values))


def same(one: object, other: object) -> bool:
    """Equal as settings: 1 is 1.0, but 1 is not True, and NaN is NaN."""
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return one == other


def final_metrics(metrics: Sequence[Mapping[str, float]]) -> tuple[FinalMetric, ...]:
    """The last value of every metric that any run has, by name, with the best run of each."""
    names = sorted({name for run in metrics for name in run})
    return tuple(_final(name, tuple(run.get(name) for run in metrics)) for name in names)


def is_lower_better(name: str) -> bool:
    words = name.lower().replace("/", "_").replace(".", "_").replace("-", "_").split("_")
    return any(word in words for word in _LESS_IS_BETTER)


def _final(name: str, values: tuple[float | None, ...]) -> FinalMetric:
    lower = is_lower_better(name)
    known = [
        (value, index) for index, value in enumerate(values) if value is not None and math.isfinite(value)
    ]
    best: int | None = None
    if len({value for value, _ in known}) > 1:
        best = min(known, key=lambda pair: (pair[0] if lower else -pair[0], pair[1]))[1]
    return FinalMetric(name, values, lower, best)
