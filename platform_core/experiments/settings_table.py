"""The settings of runs as numbers: axes of parallel coordinates and of scatter plots, and columns of a regression."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from platform_core.experiments.comparison import flatten
from platform_core.experiments.seeds import is_seed

MOST_CATEGORIES = 12  # of a text setting: with more of them it is a name, not a choice
LEAST_RUNS = 8  # for an importance: below, any ranking of settings is chance
LOG_RATIO = 50.0  # of the greatest to the least value, from which a positive setting is drawn on a log axis


@dataclass(frozen=True, slots=True)
class Axis:
    """A setting that differs. `values` holds a number for each run, None where the run lacks it; of a text setting
    these are places in `categories`."""

    name: str
    values: tuple[float | None, ...]
    categories: tuple[str, ...] = ()
    log: bool = False


@dataclass(frozen=True, slots=True)
class DesignMatrix:
    """One row a run that has a finite result, one column a setting. `problem` says why there is no importance."""

    names: tuple[str, ...] = ()
    rows: tuple[tuple[float, ...], ...] = ()
    results: tuple[float, ...] = ()
    problem: str = ""


def axes(configs: Sequence[Mapping[str, object]]) -> tuple[Axis, ...]:
    """Returns the settings that differ between the runs, by name; names, seeds and free texts are left out."""
    flat = [flatten(config) for config in configs]
    names = sorted({name for config in flat for name in config if not is_seed(name)})
    found = (_axis(name, [config.get(name) for config in flat]) for name in names)
    return tuple(axis for axis in found if axis is not None)


def metric_axis(name: str, values: Sequence[float | None]) -> Axis:
    known = tuple(value if value is not None and math.isfinite(value) else None for value in values)
    return Axis(name, known, log=_is_wide(known))


def _axis(name: str, values: Sequence[object]) -> Axis | None:
    given = [value for value in values if value is not None]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in given):
        numbers = tuple(float(value) if isinstance(value, int | float) else None for value in values)
        numbers = tuple(value if value is not None and math.isfinite(value) else None for value in numbers)
        if len({value for value in numbers if value is not None}) < 2:
            return None
        return Axis(name, numbers, log=_is_wide(numbers))
    texts = [None if value is None else str(value) for value in values]
    categories = tuple(sorted({text for text in texts if text is not None}))
    if not 2 <= len(categories) <= MOST_CATEGORIES:
        return None
    return Axis(
        name, tuple(None if text is None else float(categories.index(text)) for text in texts), categories
    )


def _is_wide(values: Sequence[float | None]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and min(known) > 0 and max(known) / min(known) >= LOG_RATIO


def design_matrix(columns: Sequence[Axis], results: Sequence[float | None]) -> DesignMatrix:
    """Prepares a regression of the results on the settings.

    Settings on a log axis are taken by their logarithm; a missing value becomes the column's middle.
    """
    places = [place for place, value in enumerate(results) if value is not None and math.isfinite(value)]
    if len(places) < LEAST_RUNS:
        return DesignMatrix(
            problem=f"{len(places)} runs have a value; an importance needs at least {LEAST_RUNS}. Add runs."
        )
    values = tuple(result for place in places if (result := results[place]) is not None)
    if len(set(values)) < 2:
        return DesignMatrix(problem="All runs have the same result, so no parameter explains a difference.")
    chosen = {axis.name: _column(axis, places) for axis in columns}
    chosen = {name: column for name, column in chosen.items() if len(set(column)) > 1}
    if not chosen:
        return DesignMatrix(problem="No parameter differs between the runs that have a value.")
    return DesignMatrix(tuple(chosen), tuple(zip(*chosen.values(), strict=True)), values)


def _column(axis: Axis, places: Sequence[int]) -> tuple[float, ...]:
    known = [
        None if value is None else math.log10(value) if axis.log else value
        for value in (axis.values[place] for place in places)
    ]
    given = sorted(value for value in known if value is not None)
    middle = given[len(given) // 2] if given else 0.0
    return tuple(middle if value is None else value for value in known)
