"""The staleness gate: which worker may begin its next step, by the steps that the others have finished.

Stale-synchronous parallel (Ho et al. 2013, NIPS): a worker that has finished c steps begins the next one only if no
worker has finished fewer than c - s. s = 0 is synchronous training; without a bound it is asynchronous.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Gate:
    """`clocks`: of each worker that takes part, how many steps it has finished."""

    bound: int | None = 0
    clocks: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.bound is not None and self.bound < 0:
            raise ValueError(f"the bound is {self.bound}; it must be at least 0, or None for no bound")

    @property
    def slowest(self) -> int:
        return min(self.clocks.values(), default=0)

    def may_begin(self, worker: str) -> bool:
        return self.bound is None or self.clocks[worker] - self.slowest <= self.bound

    def joined(self, worker: str) -> Gate:
        """A new worker, or one that comes back, begins where the slowest of the others is; a known one goes on."""
        return replace(self, clocks={**self.clocks, worker: self.clocks.get(worker, self.slowest)})

    def finished(self, worker: str) -> Gate:
        if not self.may_begin(worker):
            ahead = self.clocks[worker] - self.slowest
            raise ValueError(f"{worker} finished a step that it could not begin: it is {ahead} steps ahead")
        return replace(self, clocks={**self.clocks, worker: self.clocks[worker] + 1})

    def left(self, worker: str) -> Gate:
        """The others do not wait for a worker that is gone."""
        return replace(self, clocks={name: clock for name, clock in self.clocks.items() if name != worker})
