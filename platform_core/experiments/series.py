"""Curves: fewer points for the screen, and smoothing for the eye."""

from __future__ import annotations

import math
from collections.abc import Sequence

Point = tuple[float, float]  # (step or time, value), in order of the first


def downsample(points: Sequence[Point], most: int) -> list[Point]:
    """At most `most` of the points, in order: both ends, and of each stretch the lowest and the highest.

    No spike is lost and none is invented, as averaging would do. Values that are not finite (a loss that
    became NaN) are kept once for each stretch that has nothing else.
    """
    if most < 4:
        raise ValueError(f"{most} points cannot hold both ends and both extremes; ask for at least 4")
    if len(points) <= most:
        return list(points)
    last = len(points) - 1
    stretches = (most - 2) // 2
    chosen = {0, last}
    inner = last - 1
    for number in range(stretches):
        begin = 1 + inner * number // stretches
        end = 1 + inner * (number + 1) // stretches
        chosen.update(_extremes(points, begin, end))
    return [points[index] for index in sorted(chosen)]


def _extremes(points: Sequence[Point], begin: int, end: int) -> tuple[int, ...]:
    finite = [index for index in range(begin, end) if math.isfinite(points[index][1])]
    if not finite:
        return (begin,) if begin < end else ()
    return (
        min(finite, key=lambda index: points[index][1]),
        max(finite, key=lambda index: points[index][1]),
    )


def smooth(values: Sequence[float], weight: float) -> list[float]:
    """Exponential moving average with bias correction: the curve begins at the first value, not at 0.

    `weight` is what the past keeps: 0 changes nothing, 0.99 is very smooth. Values that are not finite pass
    through and leave the average as it was.
    """
    if not 0.0 <= weight < 1.0:
        raise ValueError(f"the weight is {weight}; it must be at least 0 and less than 1")
    average, correction = 0.0, 1.0
    smoothed: list[float] = []
    for value in values:
        if not math.isfinite(value):
            smoothed.append(value)
            continue
        average = weight * average + (1.0 - weight) * value
        correction *= weight
        smoothed.append(average / (1.0 - correction))
    return smoothed
