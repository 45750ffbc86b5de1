"""Means of metrics with their uncertainty, by the percentile bootstrap (Efron and Tibshirani 1993, chapter 13)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2_000
LEVEL = 0.95
_BLOCK = 4_000_000  # drawn numbers at a time, which bounds the memory


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean of a metric over samples and the interval that holds it with 95 %."""

    mean: float
    low: float
    high: float
    samples: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean of the differences of two versions on the same samples, with the interval that holds it with 95 %."""

    mean: float
    low: float
    high: float
    pairs: int


@dataclass(frozen=True, slots=True)
class Sample:
    """What an evaluation says of one sample: its metrics, and the slices it belongs to ("language = de")."""

    id: str
    metrics: Mapping[str, float]
    slices: tuple[str, ...] = ()


def estimate(values: Sequence[float], rng: np.random.Generator) -> Estimate:
    """NaN values count: a metric that could not be computed for a sample is not a good one."""
    mean, low, high = _interval(values, rng)
    return Estimate(mean, low, high, len(values))


def by_metric(samples: Sequence[Sample], rng: np.random.Generator) -> dict[str, Estimate]:
    names = sorted({name for sample in samples for name in sample.metrics})
    return {
        name: estimate([sample.metrics[name] for sample in samples if name in sample.metrics], rng)
        for name in names
    }


def by_slice(samples: Sequence[Sample], rng: np.random.Generator) -> dict[str, dict[str, Estimate]]:
    names = sorted({name for sample in samples for name in sample.slices})
    return {name: by_metric([sample for sample in samples if name in sample.slices], rng) for name in names}


def differences(
    version: Sequence[Sample], production: Sequence[Sample], rng: np.random.Generator
) -> dict[str, Difference]:
    """Version less production by metric, over the samples that both have. Pairs leave out what samples differ in."""
    other = {sample.id: sample for sample in production}
    names = sorted({name for sample in version for name in sample.metrics})
    result = {}
    for name in names:
        pairs = [
            sample.metrics[name] - other[sample.id].metrics[name]
            for sample in version
            if name in sample.metrics and sample.id in other and name in other[sample.id].metrics
        ]
        if pairs:
            result[name] = Difference(*_interval(pairs, rng), len(pairs))
    return result


def _interval(values: Sequence[float], rng: np.random.Generator) -> tuple[float, float, float]:
    """Mean and percentile interval; a single value has no width, and NaN or infinity no interval."""
    data = np.asarray(values, dtype=np.float64)
    if len(data) == 0 or not np.isfinite(data).all():
        return math.nan, math.nan, math.nan
    rounds = max(1, min(RESAMPLES, _BLOCK // len(data)))
    means = np.concatenate([
        data[rng.integers(0, len(data), (min(rounds, RESAMPLES - done), len(data)))].mean(axis=1)
        for done in range(0, RESAMPLES, rounds)
    ])  # fmt: skip
    low, high = np.quantile(means, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(data.mean()), float(low), float(high)
