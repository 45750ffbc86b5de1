"""What goes into the metric store, and what comes out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from platform_core.metrics.bands import Bands

__all__ = ["Axis", "Bands", "Latest", "Level", "Points", "Summary"]

Axis: TypeAlias = (
    Literal["step", "wall"] | str
)  # or "metric:<key>": the value of that metric at the same step


@dataclass(frozen=True, slots=True)
class Points:
    """Columns of one series: whole steps and milliseconds, and values with NaN and infinities as they are."""

    key: str
    steps: Any  # sequences or arrays of one length
    values: Any
    times_ms: Any


@dataclass(frozen=True, slots=True)
class Summary:
    """Of the points that count. `min` and `max` are over finite values, None without any; `first` and `last`, in the
    order of steps and times, may be NaN or infinite."""

    count: int
    non_finite: int
    first: float
    first_step: int
    last: float
    last_step: int
    last_ms: int
    min: float | None
    min_step: int | None
    max: float | None
    max_step: int | None


@dataclass(frozen=True, slots=True)
class Level:
    """Of the finite values of one series."""

    mean: float
    max: float
    last: float
    last_ms: int


@dataclass(frozen=True, slots=True)
class Latest:
    """What was reported since a version, perhaps with some points of before; `version` is where to go on."""

    points: Mapping[str, Points]
    version: int
