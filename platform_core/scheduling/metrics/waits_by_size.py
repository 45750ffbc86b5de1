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
    return tuple(
        Waits(
            label,
            len(found),
            percentile([ms for _, ms in found], 50),
            percentile([ms for _, ms in found], 95),
            found[-1][1],
        )
        for label, found in grouped(waits)
    )


def grouped(times: Iterable[tuple[int, int]]) -> list[tuple[str, list[tuple[int, int]]]]:
    """(GPUs, milliseconds) of jobs by size class, the shortest first; classes without jobs are left out."""
    ascending = sorted(times, key=lambda one: one[1])
    classes = (
        (_label(low, high), [one for one in ascending if one[0] >= low and (high is None or one[0] <= high)])
        for low, high in SIZES
    )
    return [(label, found) for label, found in classes if found]


def percentile(ascending: list[int], percent: int) -> int:
    """By nearest rank: the smallest value that `percent` percent of the values do not exceed. Needs one value."""
    return ascending[-(-len(ascending) * percent // 100) - 1]


def _label(low: int, high: int | None) -> str:
    return str(low) if low == high else f"over {low - 1}" if high is None else f"{low} to {high}"
