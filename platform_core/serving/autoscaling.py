"""How many replicas an endpoint needs: by its requests at once, by their latency, and by the last week."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from platform_core.units import MINUTE_MS, SECOND_MS

UP_WINDOW_MS = 10 * SECOND_MS  # a burst that is shorter is queued
MOST_REPLICAS = 1_000
LEAST_EXPECTED = 0.5  # of a replica


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """`target_latency_ms` 0: no target. With `minimum` 0 the last replica ends after `idle_ms` without a request."""

    minimum: int = 1
    maximum: int = 1
    target_concurrency: float = 8.0  # requests at once in a replica
    target_latency_ms: int = 0
    idle_ms: int = 5 * MINUTE_MS
    down_after_ms: int = 2 * MINUTE_MS  # so long it keeps what it needed

    def __post_init__(self) -> None:
        if not 0 <= self.minimum <= self.maximum:
            why = "0 to max_replicas are possible"
            raise ValueError(f"min_replicas is {self.minimum} and max_replicas {self.maximum}; {why}")
        if not 1 <= self.maximum <= MOST_REPLICAS:
            raise ValueError(f"max_replicas is {self.maximum}; 1 to {MOST_REPLICAS} are possible")
        if self.target_concurrency <= 0:
            raise ValueError(f"target_concurrency is {self.target_concurrency}; it must be greater than 0")


@dataclass(frozen=True, slots=True)
class Reading:
    """The traffic of one interval."""

    at_ms: int  # its end
    in_flight: float  # on the average, the requests that were held for want of a replica included
    requests: int
    p99_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Scale:
    replicas: int
    reason: str


def scale(
    policy: ScalingPolicy, readings: Sequence[Reading], current: int, now_ms: int, expected: float = 0.0
) -> Scale:
    """More at once, fewer only after `down_after_ms`. `readings` are in the order of time.

    `expected` is the demand that the last week lets expect, in requests at once; it only adds replicas.
    """
    recent = [reading for reading in readings if reading.at_ms > now_ms - policy.down_after_ms]
    now = _needed(policy, [one for one in recent if one.at_ms > now_ms - UP_WINDOW_MS])
    needed, reason = now, f"{now} for the requests of the last {UP_WINDOW_MS // SECOND_MS} s"
    soon = _expected(policy, expected)
    if soon > needed:
        needed, reason = (
            soon,
            f"{soon} for the {expected:.1f} requests at once that the last week lets expect",
        )
    slow = _too_slow(policy, recent, now_ms)
    if slow is not None and 0 < current <= policy.maximum and needed <= current:
        needed, reason = current + 1, f"p99 is {slow:.0f} ms, its target {policy.target_latency_ms} ms"
    if needed < current:
        highest = max((_needed(policy, [reading]) for reading in recent), default=0)
        if highest > needed:
            kept = f"{highest} were needed in the last {policy.down_after_ms // SECOND_MS} s"
            needed, reason = min(current, highest), kept
    if needed == 0 and current and policy.minimum == 0 and not _idle(policy, readings, now_ms):
        needed, reason = 1, f"it was asked in the last {policy.idle_ms // SECOND_MS} s"
    if needed < policy.minimum:
        return Scale(policy.minimum, f"{policy.minimum} is the minimum")
    if needed > policy.maximum:
        return Scale(policy.maximum, f"{policy.maximum} is the maximum; {needed} would be needed")
    return Scale(needed, reason)


def _needed(policy: ScalingPolicy, readings: Sequence[Reading]) -> int:
    if not readings:
        return 0
    demand = sum(reading.in_flight for reading in readings) / len(readings)
    asked = any(reading.requests for reading in readings)
    return max(math.ceil(demand / policy.target_concurrency - 1e-9), int(asked))


def _expected(policy: ScalingPolicy, expected: float) -> int:
    """Less than half of a replica's requests keeps none ready: an endpoint may scale to zero."""
    replicas = expected / policy.target_concurrency
    return math.ceil(replicas - 1e-9) if replicas >= LEAST_EXPECTED else 0


def _too_slow(policy: ScalingPolicy, readings: Sequence[Reading], now_ms: int) -> float | None:
    """The worst of every recent p99, if all of them are above the target: one slow request is no reason."""
    if not policy.target_latency_ms:
        return None
    window = [one.p99_ms for one in readings if one.at_ms > now_ms - UP_WINDOW_MS and one.p99_ms is not None]
    slow = [latency for latency in window if latency > policy.target_latency_ms]
    return max(slow) if slow and len(slow) == len(window) else None


def _idle(policy: ScalingPolicy, readings: Sequence[Reading], now_ms: int) -> bool:
    return not any(one.requests or one.in_flight for one in readings if one.at_ms > now_ms - policy.idle_ms)
