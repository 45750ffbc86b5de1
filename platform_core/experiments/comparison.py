"""Runs side by side: only what differs, and what came out."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from platform_core.experiments.names import is_system


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
class Reported:
    """What a run reported of one metric over all its steps."""

    last: float
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class ComparedMetric:
    name: str
    rule: str  # see `rule_of`
    values: tuple[float | None, ...]  # by that rule
    best: int | None  # index of a run, see `best_of`


# What a word in a metric's name says about its direction: -1 less is better, 1 more. Others, like a learning rate, are
# neither: the page marks no winner.
_DIRECTIONS = {
    word: direction
    for direction, words in {
        -1: "loss error err perplexity ppl bits bpb mae mse rmse nll wer cer fid latency",
        1: "accuracy acc f1 auc auroc map precision recall bleu rouge reward return score iou throughput mfu",
    }.items()
    for word in words.split()
}


_HELD_OUT = {"heldout", "held", "val", "valid", "validation", "eval", "test", "dev"}


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


def compared_metrics(runs: Sequence[Mapping[str, Reported]]) -> tuple[ComparedMetric, ...]:
    """Every metric that any run has reported, by name, with the best run of each."""
    return tuple(_compared(name, runs) for name in sorted({name for run in runs for name in run}))


def rule_of(name: str) -> str:
    """By which of its values a run is judged: the best that it reached, or the last of a metric without a direction."""
    return {-1: "lowest", 1: "highest", 0: "last"}[direction(name)]


def judged(name: str, reported: Reported) -> float | None:
    """None where the value is the last one, and that is not finite."""
    value = {"lowest": reported.lowest, "highest": reported.highest, "last": reported.last}[rule_of(name)]
    return value if math.isfinite(value) else None


def direction(name: str) -> int:
    """-1 when less of this metric is better, 1 when more is; 0 when its name does not say, or it is sampled."""
    if is_system(name):
        return 0
    words = re.split(r"[^a-z0-9]+", name.lower())
    if words[-2:] == ["per", "second"]:
        return 1
    return next((_DIRECTIONS[word] for word in words if word in _DIRECTIONS), 0)


def headline(names: Sequence[str]) -> str:
    """The metric that runs are judged by: one with a direction, on held-out data if any is; "" without any."""
    judged = [name for name in names if direction(name)]
    held_out = (name for name in judged if _HELD_OUT & set(re.split(r"[^a-z0-9]+", name.lower())))
    return next(held_out, judged[0] if judged else "")


def best_of(name: str, values: Sequence[float | None]) -> int | None:
    """Index of the best value. None without a direction, when fewer than two have a finite value, or all are equal."""
    better = direction(name)
    known = [
        (value * better, -index)
        for index, value in enumerate(values)
        if value is not None and math.isfinite(value)
    ]
    return -max(known)[1] if better and len({value for value, _ in known}) > 1 else None


def _compared(name: str, runs: Sequence[Mapping[str, Reported]]) -> ComparedMetric:
    values = tuple(judged(name, run[name]) if name in run else None for run in runs)
    return ComparedMetric(name, rule_of(name), values, best_of(name, values))
