"""How much the outputs of an export differ from those of the original."""

from __future__ import annotations

import math

import numpy as np

from platform_core.registry.exports import Difference, Tolerance


def compare(
    original: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    exported: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    tolerance: Tolerance,
) -> Difference:
    """Raises ValueError for outputs of other shapes. What is not finite is equal only to itself."""
    if original.shape != exported.shape:
        raise ValueError(
            f"its outputs have the shape {exported.shape}, those of the original {original.shape}"
        )
    same = (original == exported) | (np.isnan(original) & np.isnan(exported))
    if bool(same.all()):
        return Difference(0.0, 0.0, 0.0)
    one, other = original[~same], exported[~same]
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        return Difference(math.nan, math.nan, math.nan)
    with np.errstate(all="ignore"):
        absolute = np.abs(other - one)
        relative = absolute / np.abs(one)
        allowed = absolute / (tolerance.absolute + tolerance.relative * np.abs(one))
    return Difference(float(absolute.max()), float(relative.max()), float(allowed.max()))
