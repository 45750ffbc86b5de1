"""The rules by which curves are smoothed. static/js/chart-smooth.js draws by the same rules; a test compares them.

Each rule keeps the x of every point, passes values that are not finite through, and counts the mean of `counts`
reported points as that many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

KINDS = ("exponential", "gaussian", "average")
SIGMA_OF_SPAN = 0.1  # of a Gaussian with strength 1
WIDTH_OF_SPAN = 0.2  # of a moving average with strength 1


def smoothed(
    kind: str,
    strength: float,
    x: Sequence[float],
    values: Sequence[float],
    counts: Sequence[int] | None = None,
    span: float = 0.0,
) -> list[float]:
    """Returns the values smoothed by one of KINDS. `span` is the width of the whole chart: all its runs share it."""
    if strength == 0.0:
        return list(values)
    if kind == "gaussian":
        return gaussian(x, values, strength * SIGMA_OF_SPAN * span, counts)
    if kind == "average":
        return moving_average(x, values, strength * WIDTH_OF_SPAN * span, counts)
    return smooth(values, strength, counts)


def smooth(values: Sequence[float], weight: float, counts: Sequence[int] | None = None) -> list[float]:
    """Returns the exponential moving average with bias correction: it begins at the first value, not at 0.

    `weight` is the share of the past that one reported point keeps: 0 changes nothing, 0.99 is very smooth.
    """
    if not 0.0 <= weight < 1.0:
        raise ValueError(f"the weight is {weight}; it must be at least 0 and less than 1")
    average, correction = 0.0, 1.0
    result: list[float] = []
    for value, count in zip(values, counts or [1] * len(values), strict=True):
        if not math.isfinite(value):
            result.append(value)
            continue
        kept = weight**count
        average = kept * average + (1.0 - kept) * value
        correction *= kept
        result.append(average / (1.0 - correction))
    return result


def gaussian(
    x: Sequence[float], values: Sequence[float], sigma: float, counts: Sequence[int] | None = None
) -> list[float]:
    """Returns the mean around each x, weighted by a Gaussian of width `sigma` in units of x and cut at three sigma."""
    places = np.asarray(x, float)
    return _around(places, values, counts, 3.0 * sigma, lambda away: np.exp(-0.5 * (away / sigma) ** 2))


def moving_average(
    x: Sequence[float], values: Sequence[float], width: float, counts: Sequence[int] | None = None
) -> list[float]:
    """Returns the mean of the values within half of `width`, in units of x, on either side of each x."""
    return _around(np.asarray(x, float), values, counts, width / 2.0, np.ones_like)


def _around(
    places: Array,
    values: Sequence[float],
    counts: Sequence[int] | None,
    reach: float,
    weight_of: Callable[[Array], Array],
) -> list[float]:
    numbers = np.asarray(values, float)
    finite = np.isfinite(numbers)
    counted = np.where(finite, np.asarray(counts or [1] * len(numbers), float), 0.0)
    numbers_or_0 = np.where(finite, numbers, 0.0)
    starts = np.searchsorted(places, places - reach, side="left")
    ends = np.searchsorted(places, places + reach, side="right")
    result: list[float] = numbers.tolist()
    for index in np.flatnonzero(finite) if reach > 0 else ():
        near = slice(starts[index], ends[index])
        weights = weight_of(places[near] - places[index]) * counted[near]
        result[index] = float(weights @ numbers_or_0[near] / weights.sum())
    return result
