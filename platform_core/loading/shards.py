"""An order that reads a few shards at a time, for data that arrives shard by shard.

Shards are shuffled, taken `at_once` together, and their samples shuffled among each other. Like the order over all
samples it follows from seed, epoch and position alone, so it resumes at the exact sample on any number of ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from platform_core.loading.order import Order
from platform_core.loading.permutation import permute

AT_ONCE = 8


@dataclass(frozen=True, slots=True, eq=False)
class ShardOrder(Order):
    ends: NDArray[np.int64] = field(
        default_factory=lambda: np.empty(0, np.int64)
    )  # samples up to each shard's
    at_once: int = AT_ONCE

    def __post_init__(self) -> None:
        # Not super(): a class with slots is made anew, and the name of the first one stays behind in it.
        Order.__post_init__(self)
        if self.at_once < 1 or not len(self.ends) or self.ends[-1] != self.samples:
            raise ValueError(f"{self.samples} samples in {len(self.ends)} shards, {self.at_once} at once.")

    # That of Order would take two orders over other shards for the same.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def group(self, position: int) -> tuple[int, int]:
        """The epoch, and which of its groups of shards holds the sample at this position."""
        epoch, place = divmod(position, self.samples)
        return epoch, int(np.searchsorted(_layout(self, epoch).group_ends, place, side="right"))

    def shards(self, epoch: int, group: int) -> list[int]:
        """The shards of a group in the order that they are listed in; [] behind the last group of the epoch."""
        begin = group * self.at_once
        found: list[int] = _layout(self, epoch).shards[begin : begin + self.at_once].tolist()
        return found

    def _of_epoch(self, epoch: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        layout = _layout(self, epoch)
        mixed = places.copy()
        if self.shuffle:
            groups = np.searchsorted(layout.group_ends, places, side="right")
            for group in np.unique(groups).tolist():
                begin = int(layout.group_ends[group - 1]) if group else 0
                inside = np.flatnonzero(groups == group)
                size = int(layout.group_ends[group]) - begin
                mixed[inside] = begin + permute(places[inside] - begin, size, self.seed + 1 + group, epoch)
        slots = np.searchsorted(layout.ends, mixed, side="right")
        return mixed + layout.shift[slots]


@dataclass(frozen=True, slots=True)
class _Layout:
    """One epoch: shards in turn, places up to the end of each and of each group, and from a place to its sample."""

    shards: NDArray[np.int64]
    ends: NDArray[np.int64]
    group_ends: NDArray[np.int64]
    shift: NDArray[np.int64]


@lru_cache(maxsize=4)
def _layout(order: ShardOrder, epoch: int) -> _Layout:
    stops = order.ends
    starts = np.concatenate([np.zeros(1, np.int64), stops[:-1]])
    shards = np.arange(len(stops), dtype=np.int64)
    if order.shuffle:
        shards = permute(shards, len(stops), order.seed, epoch)
    ends = np.cumsum((stops - starts)[shards])
    last = np.minimum(np.arange(order.at_once, len(shards) + order.at_once, order.at_once), len(shards)) - 1
    return _Layout(shards, ends, ends[last], starts[shards] - (ends - (stops - starts)[shards]))
