"""How much each parameter explains of the differences between runs, by a random forest, with its uncertainty."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from platform_core.experiments.settings_table import Axis, design_matrix

MOST_PARAMETERS = 60
_TREES = 60
_FORESTS = 4
_REPEATS = 4


@dataclass(frozen=True, slots=True)
class Bar:
    """`share` and `spread` (one standard deviation over forests and permutations) are of 1 for all parameters."""

    name: str
    share: float
    spread: float


@dataclass(frozen=True, slots=True)
class Importance:
    bars: tuple[Bar, ...] = ()
    explained: float = 0.0  # R² of the forest on runs that a tree has not seen
    runs: int = 0
    problem: str = ""  # why there is none


def importance(axes: Sequence[Axis], results: Sequence[float | None]) -> Importance:
    """Seeded: the same runs give the same bars."""
    matrix = design_matrix(axes[:MOST_PARAMETERS], results)
    if matrix.problem:
        return Importance(problem=matrix.problem)
    # Two seconds and 90 MiB, which only the pages that show importances shall cost.
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.inspection import permutation_importance

    rows, values = np.asarray(matrix.rows), np.asarray(matrix.results)
    drops, scores = [], []
    for seed in range(_FORESTS):
        forest = RandomForestRegressor(_TREES, oob_score=True, random_state=seed, n_jobs=1).fit(rows, values)
        permuted = permutation_importance(
            forest, rows, values, n_repeats=_REPEATS, random_state=seed, n_jobs=1
        )
        drops.append(permuted.importances)
        scores.append(forest.oob_score_)
    drop = np.maximum(np.concatenate(drops, axis=1), 0.0)
    total = drop.mean(axis=1).sum() or 1.0
    bars = [
        Bar(name, float(of_one.mean() / total), float(of_one.std() / total))
        for name, of_one in zip(matrix.names, drop, strict=True)
    ]
    bars.sort(key=lambda bar: (-bar.share, bar.name))
    return Importance(tuple(bars), float(np.mean(scores)), len(values))
