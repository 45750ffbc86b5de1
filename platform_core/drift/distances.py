"""How far a window of values lies from a reference, and how far chance alone would put it.

Each function gives a distance and the distance that a window without drift exceeds with the probability `alpha`, for
samples of these sizes. A fixed threshold ("PSI above 0.2") alarms on every small window and sleeps on every large one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

BINS = 10
_SMOOTHING = 0.5  # of a count, so that an empty bin does not make the distance infinite


@dataclass(frozen=True, slots=True)
class Distance:
    value: float
    limit: float

    @property
    def moved(self) -> bool:
        return self.value > self.limit


def kolmogorov_smirnov(reference: Sequence[float], window: Sequence[float], alpha: float) -> Distance:
    """The largest difference of the two distribution functions.

    The limit is that of Smirnov (1948), sqrt(-ln(alpha / 2) / 2 * (n + m) / (n * m)); it is conservative for ties.
    """
    first, second = np.sort(np.asarray(reference, float)), np.sort(np.asarray(window, float))
    places = np.concatenate([first, second])
    below_first = np.searchsorted(first, places, side="right") / len(first)
    below_second = np.searchsorted(second, places, side="right") / len(second)
    n, m = len(first), len(second)
    limit = math.sqrt(-math.log(alpha / 2) / 2 * (n + m) / (n * m))
    return Distance(float(np.abs(below_first - below_second).max()), limit)


def population_stability(reference: Sequence[float], window: Sequence[float], alpha: float) -> Distance:
    """PSI over the deciles of the reference: the sum of (p - q) ln(p / q).

    Without drift, PSI / (1/n + 1/m) follows a chi-squared distribution of BINS - 1 degrees of freedom
    (Yurdakul and Naranjo 2020, "Statistical properties of the population stability index", theorem 1).
    """
    return _stability(*_counts(reference, window), alpha)


def categories(reference: Sequence[str], window: Sequence[str], alpha: float) -> Distance:
    """PSI over categories; those that are rare in both, fewer than five together, count as one."""
    before, now = Counter(reference), Counter(window)
    common = sorted(name for name in before | now if before[name] + now[name] >= 5)
    first = [before[name] for name in common]
    second = [now[name] for name in common]
    rest = (len(reference) - sum(first), len(window) - sum(second))
    if any(rest):
        first, second = [*first, rest[0]], [*second, rest[1]]
    return _stability(np.asarray(first), np.asarray(second), alpha)


def jensen_shannon(reference: Sequence[float], window: Sequence[float], alpha: float) -> Distance:
    """The divergence in nats over the deciles of the reference, between 0 and ln 2.

    Without drift, 8 n m / (n + m) times the divergence follows a chi-squared distribution of BINS - 1 degrees of
    freedom (Grosse et al. 2002, "Analysis of symbolic sequences using the Jensen-Shannon divergence", section II, with
    equal weights).
    """
    first, second = _counts(reference, window)
    p, q = first / first.sum(), second / second.sum()
    middle = (p + q) / 2
    divergence = sum(
        float(np.sum(part[part > 0] * np.log(part[part > 0] / middle[part > 0]))) / 2 for part in (p, q)
    )
    n, m = int(first.sum()), int(second.sum())
    return Distance(divergence, chi_squared(len(first) - 1, alpha) * (n + m) / (8 * n * m))


def embeddings(reference: np.ndarray, window: np.ndarray, alpha: float) -> Distance:
    """The distance of the mean vectors of two sets of embeddings, shape (samples, dimensions).

    Each dimension is scaled by its deviation in the reference; without drift the square follows, by the central limit
    theorem, a chi-squared distribution whose degrees of freedom are the effective dimensions (Satterthwaite 1946).
    """
    scale = reference.std(axis=0)
    scale[scale == 0] = 1.0
    difference = (window.mean(axis=0) - reference.mean(axis=0)) / scale
    eigenvalues = np.linalg.eigvalsh(np.cov(reference / scale, rowvar=False).reshape(len(scale), -1))
    total, squares = float(eigenvalues.sum()), float((eigenvalues**2).sum())
    if total <= 0:
        return Distance(float(np.linalg.norm(difference)), 0.0)
    variance = (1 / len(reference) + 1 / len(window)) * squares / total
    return Distance(
        float(np.linalg.norm(difference)), math.sqrt(variance * chi_squared(total * total / squares, alpha))
    )


def chi_squared(degrees: float, alpha: float) -> float:
    """The value that is exceeded with probability `alpha`, by Wilson and Hilferty (1931); 0 for no degrees."""
    if degrees <= 0:
        return 0.0
    part = 2 / (9 * degrees)
    return float(degrees * max(0.0, 1 - part + NormalDist().inv_cdf(1 - alpha) * math.sqrt(part)) ** 3)


def _counts(reference: Sequence[float], window: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """How many values of each lie in the deciles of the reference; equal deciles are one."""
    edges = np.unique(np.quantile(np.asarray(reference, float), np.linspace(0, 1, BINS + 1)[1:-1]))
    first, second = (
        np.bincount(np.searchsorted(edges, np.asarray(values, float), side="left"), minlength=len(edges) + 1)
        for values in (reference, window)
    )
    return first, second


def _stability(first: np.ndarray, second: np.ndarray, alpha: float) -> Distance:
    n, m = int(first.sum()), int(second.sum())
    p = (first + _SMOOTHING) / (n + _SMOOTHING * len(first))
    q = (second + _SMOOTHING) / (m + _SMOOTHING * len(second))
    value = float(np.sum((p - q) * np.log(p / q)))
    return Distance(value, chi_squared(len(first) - 1, alpha) * (1 / n + 1 / m))
