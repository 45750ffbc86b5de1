"""Runs shown as one line of a table: what the values of a group come to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Band:
    """Of the finite values of a group."""

    mean: float
    low: float
    high: float
    count: int


def band(values: Sequence[float | None]) -> Band | None:
    """None without a finite value."""
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if not finite:
        return None
    # Divided first, and once more by two: a sum of finite values may be infinite, at which fsum raises.
    mean = 2 * math.fsum(value / len(finite) / 2 for value in finite)
    return Band(min(max(mean, min(finite)), max(finite)), min(finite), max(finite), len(finite))


def common(values: Sequence[object]) -> object | None:
    """The value that all of a group have; None where they differ."""
    first = values[0] if values else None
    return first if all(value == first for value in values) else None
