"""Latencies as counts in buckets that grow by a fifth: small to store, and quantiles of many sources add up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

FIRST_MS = 0.25
GROWTH = 1.2
BUCKETS = 72  # the last one begins at 105 s


def bucket_of(latency_ms: float) -> int:
    if latency_ms <= FIRST_MS:
        return 0
    return min(BUCKETS - 1, math.ceil(math.log(latency_ms / FIRST_MS, GROWTH)))


def upper_ms(bucket: int) -> float:
    """The longest latency that is counted in this bucket."""
    return FIRST_MS * GROWTH**bucket


def added(histograms: Iterable[Sequence[int]]) -> list[int]:
    total = [0] * BUCKETS
    for counts in histograms:
        for bucket, count in enumerate(counts[:BUCKETS]):
            total[bucket] += count
    return total


def quantile_ms(counts: Sequence[int], share: float) -> float | None:
    """At most a fifth above the true quantile; None without a latency."""
    total = sum(counts)
    if not total:
        return None
    wanted, seen = math.ceil(total * share), 0
    for bucket, count in enumerate(counts):
        seen += count
        if count and seen >= wanted:
            return upper_ms(bucket)
    return upper_ms(BUCKETS - 1)
