"""Runs that differ only in their seed, shown as one: the median of their curves and the band around it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from platform_core.experiments.comparison import flatten

_SEED = re.compile(r"(^|[._-])(random_?)?seeds?$", re.IGNORECASE)
_NAMES = {"name", "run_name"}


@dataclass(frozen=True, slots=True)
class Curve:
    """Values in the order of x, which rises."""

    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, slots=True)
class SeedBand:
    x: list[float] = field(default_factory=list)
    median: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)  # that have reached this x


def is_seed(name: str) -> bool:
    return bool(_SEED.search(name)) or name.rpartition(".")[2].lower() in _NAMES


def seed_groups(configs: Sequence[Mapping[str, object]]) -> list[list[int]]:
    """Returns the places of the runs whose settings are equal in all but seed and name; every run is in one group."""
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for place, config in enumerate(configs):
        settings = tuple(
            sorted((name, _text(value)) for name, value in flatten(config).items() if not is_seed(name))
        )
        groups.setdefault(settings, []).append(place)
    return list(groups.values())


def _text(value: object) -> str:
    """1 and 1.0 are one setting; 1, True and "1" are three."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{type(value).__name__} {value!r}"


def seed_band(curves: Sequence[Curve], columns: int) -> SeedBand:
    """Returns the median, the least and the greatest of the curves at up to `columns` places.

    A curve counts from its first to its last x; between two of its points it is a straight line. Values that are not
    finite are left out.
    """
    arrays = [_finite(curve) for curve in curves]
    arrays = [(x, y) for x, y in arrays if len(x)]
    if not arrays:
        return SeedBand()
    places = np.unique(np.concatenate([x for x, _ in arrays]))
    if len(places) > columns:
        ends = [x[-1] for x, _ in arrays]
        places = np.unique(np.concatenate([np.linspace(places[0], places[-1], columns - len(ends)), ends]))
    values = np.array([np.interp(places, x, y, left=np.nan, right=np.nan) for x, y in arrays])
    reached = np.isfinite(values).sum(axis=0)
    places, values, reached = places[reached > 0], values[:, reached > 0], reached[reached > 0]
    return SeedBand(
        places.tolist(),
        np.nanmedian(values, axis=0).tolist(),
        np.nanmin(values, axis=0).tolist(),
        np.nanmax(values, axis=0).tolist(),
        reached.tolist(),
    )


def _finite(curve: Curve) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    x, y = np.asarray(curve.x, float), np.asarray(curve.y, float)
    finite = np.isfinite(x) & np.isfinite(y)
    return x[finite], y[finite]
