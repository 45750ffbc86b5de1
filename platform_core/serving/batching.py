"""Which of the waiting requests run together.

A request that finds the model free runs at once; batches form only from what waits while the model is busy, so that
no request ever waits for company.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from platform_core.units import SECOND_MS

LONGEST_RETRY_SECONDS = 30


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """`max_tokens` bounds what a batch of texts costs once it is padded to its longest; 0: no bound."""

    max_requests: int = 32
    max_tokens: int = 0
    max_waiting: int = 256

    def __post_init__(self) -> None:
        for name in ("max_requests", "max_waiting"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.max_tokens < 0:
            raise ValueError(f"max_tokens is {self.max_tokens}; it must be at least 0, which is no bound")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request that waits. Only requests with an equal `shape` can share a batch."""

    id: int  # in the order of arrival
    rows: int = 1
    tokens: int = 0  # of its longest row
    shape: Hashable = None
    priority: int = 0  # 0 goes first
    deadline_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    requests: tuple[int, ...]
    expired: tuple[int, ...]  # whose deadline has passed: they are answered, not run


def form(waiting: Sequence[Waiting], limits: BatchLimits, now_ms: int) -> Batch:
    """The next batch: the most urgent request that has waited longest, and what fits beside it."""
    expired = tuple(one.id for one in waiting if one.deadline_ms is not None and one.deadline_ms <= now_ms)
    dead = frozenset(expired)
    queue = sorted((one for one in waiting if one.id not in dead), key=lambda one: (one.priority, one.id))
    if not queue:
        return Batch((), expired)
    first = queue[0]
    chosen, rows, longest = [first.id], first.rows, first.tokens
    for one in queue[1:]:
        if rows >= limits.max_requests:
            break
        padded = max(longest, one.tokens) * (rows + one.rows)
        too_long = bool(limits.max_tokens) and padded > limits.max_tokens
        if one.shape != first.shape or rows + one.rows > limits.max_requests or too_long:
            continue
        chosen.append(one.id)
        rows, longest = rows + one.rows, max(longest, one.tokens)
    return Batch(tuple(chosen), expired)


def retry_after_seconds(waiting: int, limits: BatchLimits, batch_ms: float) -> int | None:
    """None: one more request may wait. Otherwise after how long the queue will have been worked off, in seconds."""
    if waiting < limits.max_waiting:
        return None
    batches = -(-waiting // limits.max_requests)
    return max(1, min(LONGEST_RETRY_SECONDS, round(batches * batch_ms / SECOND_MS)))
