"""Which value of a metric counts, and whether less or more of it is better."""

from __future__ import annotations

import math
from collections.abc import Sequence

from platform_core.experiments.comparison import Reported, direction, rule_of

CHOICES = ("best", "last", "min", "max", "smoothed")
DIRECTIONS = ("auto", "lower", "higher")
_RULES = {"last": "last", "min": "lowest", "max": "highest", "smoothed": "smoothed"}


def rule(key: str, choice: str) -> str:
    """The word before the metric's name: "lowest val/loss"."""
    return _RULES.get(choice) or rule_of(key)


def chosen_value(key: str, choice: str, reported: Reported, smoothed: float | None = None) -> float | None:
    """Returns the value that counts, None where it is not finite or the smoothed one is not known."""
    values = {
        "lowest": reported.lowest,
        "highest": reported.highest,
        "last": reported.last,
        "smoothed": smoothed,
    }
    value = values[rule(key, choice)]
    return value if value is not None and math.isfinite(value) else None


def better(key: str, choice: str, wanted: str = "auto") -> int:
    """-1 when less is better, 1 when more is, 0 when neither the reader, the metric's name nor the choice says."""
    if wanted in ("lower", "higher"):
        return -1 if wanted == "lower" else 1
    return direction(key) or {"min": -1, "max": 1}.get(choice, 0)


def ranked(values: Sequence[float | None], sign: int) -> list[int]:
    """Returns the places of the values, best first, those without a value last; the greatest first without a sign."""
    return sorted(
        range(len(values)),
        key=lambda place: (values[place] is None, -(sign or 1) * (values[place] or 0.0), place),
    )
