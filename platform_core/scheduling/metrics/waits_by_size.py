"""How long jobs waited, by size: the mean hides what large gangs endure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SIZES = ((1, 1), (2, 8), (9, 64), (65, None))  # GPUs of a job: from, up to


@dataclass(frozen=True, slots=True)
class Waits:
    """Of the jobs of one size, from submission to the first start. Percentiles by nearest rank."""

    label: str
    jobs: int
    p50_ms: int
    p95_ms: int
    longest_ms: int


def by_size(waits: Iterable[tuple[int, int]]) -> tuple[Waits, ...]:
    """`waits`: (GPUs, milliseconds) of each job. Sizes that nobody had are left out."""
    told = sorted(waits, key=lambda wait: wait[1])
    sizes = (
        (low, high, [ms for gpus, ms in told if gpus >= low and (high is None or gpus <= high)])
        for low, high in SIZES
    )
    return tuple(
        Waits(_label(low, high), len(mine), percentile(mine, 50), percentile(mine, 95), mine[-1])
        for low, high, mine in sizes
        if mine
    )


def percentile(ascending: list[int], percent: int) -> int:
    """Nearest rank: the least value that at least so many percent do not exceed. Of at least one value."""
    return ascending[-(-len(ascending) * percent // 100) - 1]


def _label(low: int, high: int | None) -> str:
    return str(low) if low == high else f"over {low - 1}" if high is None else f"{low} to {high}"
