"""The order of samples over all epochs, cut into global batches and shared among ranks.

A position counts samples since the beginning of the training. Everything follows from it, so it is all that a
checkpoint has to keep: ranks and workers may come and go, and another global batch begins where the last one ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from platform_core.loading.permutation import MOST_SAMPLES, permute


class LastBatch(StrEnum):
    """What the last batch of an epoch is where the samples do not divide by the global batch."""

    FILL = "fill"  # filled up with the first samples of the next epoch
    KEEP = "keep"  # a smaller one


@dataclass(frozen=True, slots=True)
class Span:
    """Positions from `start` to before `stop`."""

    start: int
    stop: int

    def share(self, rank: int, world_size: int) -> Span:
        """The part of one rank. The parts of all ranks are the span, and differ by one sample at most."""
        count = self.stop - self.start
        return Span(self.start + rank * count // world_size, self.start + (rank + 1) * count // world_size)


@dataclass(frozen=True, slots=True)
class Order:
    samples: int  # of an epoch
    seed: int
    shuffle: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.samples < MOST_SAMPLES:
            raise ValueError(f"An order is of 1 to {MOST_SAMPLES:,} samples, not of {self.samples}.")

    def epoch(self, position: int) -> int:
        return position // self.samples

    def indices(self, *spans: Span) -> NDArray[np.int64]:
        """The samples at these positions. Many spans cost little more than one; none begins in an earlier epoch."""
        places: dict[int, list[NDArray[np.int64]]] = {}
        for span in spans:
            start = span.start
            while start < span.stop:
                epoch, place = divmod(start, self.samples)
                stop = min(span.stop, (epoch + 1) * self.samples)
                places.setdefault(epoch, []).append(np.arange(place, place + stop - start, dtype=np.int64))
                start = stop
        parts = [self._of_epoch(epoch, np.concatenate(parts)) for epoch, parts in places.items()]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _of_epoch(self, epoch: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return permute(places, self.samples, self.seed, epoch) if self.shuffle else places

    def batch(self, position: int, size: int, last: LastBatch) -> Span:
        """The global batch that begins at this position."""
        stop = position + size
        if last is LastBatch.KEEP:
            stop = min(stop, (self.epoch(position) + 1) * self.samples)
        return Span(position, stop)

    def batches_left(self, position: int, size: int) -> int:
        """Until the epoch of this position has been given out."""
        return -(-((self.epoch(position) + 1) * self.samples - position) // size)
