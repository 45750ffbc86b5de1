"""The rule by which curves are smoothed. static/js/chart-data.js draws by the same rule; a test compares them."""

from __future__ import annotations

import math
from collections.abc import Sequence


def smooth(values: Sequence[float], weight: float, counts: Sequence[int] | None = None) -> list[float]:
    """Returns the exponential moving average with bias correction: it begins at the first value, not at 0.

    `weight` is the share of the past that one reported point keeps: 0 changes nothing, 0.99 is very smooth. In a
    sampled curve a value is the mean of `counts` reported points and counts as that many. Values that are not finite
    pass through and leave the average as it was.
    """
    if not 0.0 <= weight < 1.0:
        raise ValueError(f"the weight is {weight}; it must be at least 0 and less than 1")
    average, correction = 0.0, 1.0
    smoothed: list[float] = []
    for value, count in zip(values, counts or [1] * len(values), strict=True):
        if not math.isfinite(value):
            smoothed.append(value)
            continue
        kept = weight**count
        average = kept * average + (1.0 - kept) * value
        correction *= kept
        smoothed.append(average / (1.0 - correction))
    return smoothed
