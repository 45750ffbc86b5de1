"""Samples and shards that cannot be read: retried, then set aside with the reason, up to a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

MOST_LISTED = 1_000


class ShardUnreadable(Exception):
    """A whole shard cannot be read; a source raises it with the shard's name."""

    def __init__(self, shard: str, reason: str) -> None:
        super().__init__(shard, reason)
        self.shard, self.reason = shard, reason

    def __str__(self) -> str:
        return f"{self.shard}: {self.reason}"


class NeedsReview(RuntimeError):
    """More of the data is unreadable than the limit allows; a person has to look at it."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """`sample` is None for a whole shard that was set aside before its samples were counted."""

    sample: int | None
    shard: str  # empty where the sample alone is unreadable
    reason: str


@dataclass(frozen=True, slots=True)
class Quarantine:
    """What a rank may set aside in one attempt. Samples of an unreadable shard count as one shard, not one by one."""

    most_samples: int = 100
    most_shards: int = 3
    retries: int = 2
    retry_seconds: float = 0.2  # before the first retry; twice as long before each next one


@dataclass(slots=True)
class Register:
    """What one loader has set aside."""

    limits: Quarantine
    warn: Callable[[str], None]
    tell: Callable[[SetAside], None]  # the platform, once for each shard and sample
    listed: list[SetAside] = field(default_factory=list)
    samples: int = 0
    shards: set[str] = field(default_factory=set)

    def add(self, found: Iterable[SetAside]) -> None:
        """Raises NeedsReview beyond the limits."""
        for item in found:
            if len(self.listed) < MOST_LISTED:
                self.listed.append(item)
            if not item.shard:
                self.samples += 1
                self.tell(item)
                self.warn(f"sample {item.sample} is set aside: {item.reason}")
            elif item.shard not in self.shards:
                self.shards.add(item.shard)
                self.tell(item)
                self.warn(f"shard {item.shard} is set aside: {item.reason}")
            self._check(item)

    def _check(self, item: SetAside) -> None:
        limits = self.limits
        if self.samples > limits.most_samples or len(self.shards) > limits.most_shards:
            raise NeedsReview(
                f"{self.samples} samples and {len(self.shards)} shards could not be read; "
                f"{limits.most_samples} samples and {limits.most_shards} shards may be set aside. "
                f"The last was {item.shard or f'sample {item.sample}'}: {item.reason}. "
                "Repair or remove them, or allow more with quarantine=Quarantine(…)."
            )
