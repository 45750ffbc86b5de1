"""Wait times by job size: a mean over all jobs hides those of large gangs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SIZES = ((1, 1), (2, 8), (9, 64), (65, None))  # GPUs of a job: from, up to


@dataclass(frozen=True, slots=True)
class Waits:
    """Waits of the jobs of one size class, from submission to first start. Percentiles by nearest rank."""

    label: str
    jobs: int
    p50_ms: int
    p95_ms: int
    longest_ms: int


def by_size(waits: Iterable[tuple[int, int]]) -> tuple[Waits, ...]:
    """`waits`: (GPUs, milliseconds) of each job. Size classes without jobs are left out."""
    ascending = sorted(waits, key=lambda wait: wait[1])
    sizes = (
        (low, high, [ms for gpus, ms in ascending if gpus >= low and (high is None or gpus <= high)])
        for low, high in SIZES
    )
    return tuple(
        Waits(
            _label(low, high),
            len(durations),
            percentile(durations, 50),
            percentile(durations, 95),
            durations[-1],
        )
        for low, high, durations in sizes
        if durations
    )


def percentile(ascending: list[int], percent: int) -> int:
    """By nearest rank: the smallest value that `percent` percent of the values do not exceed. Needs one value."""
    return ascending[-(-len(ascending) * percent // 100) - 1]


def _label(low: int, high: int | None) -> str:
    return str(low) if low == high else f"over {low - 1}" if high is None else f"{low} to {high}"
