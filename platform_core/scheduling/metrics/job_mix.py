"""What kinds of jobs a cluster runs: how many of each size, their GPU time and how long they ran."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from platform_core.scheduling.metrics.waits_by_size import grouped, percentile


@dataclass(frozen=True, slots=True)
class Class:
    """The ended jobs of one size class, from their first start to their end. Percentiles by nearest rank."""

    label: str
    jobs: int
    gpu_ms: int
    share_percent: float  # of the GPU time of all classes
    p50_ms: int
    p95_ms: int


def mix(runs: Iterable[tuple[int, int]]) -> tuple[Class, ...]:
    """`runs`: (GPUs, milliseconds from start to end) of each job. Size classes without jobs are left out."""
    classes = [(label, found, sum(gpus * ms for gpus, ms in found)) for label, found in grouped(runs)]
    whole = sum(gpu_ms for _, _, gpu_ms in classes)
    return tuple(
        Class(
            label,
            len(found),
            gpu_ms,
            100 * gpu_ms / whole if whole else 0.0,
            percentile([ms for _, ms in found], 50),
            percentile([ms for _, ms in found], 95),
        )
        for label, found, gpu_ms in classes
    )
