"""What happened to each update: how stale it was, and whether the bound held all the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Update:
    """A gradient as it was applied. `read` and `written`: the versions of the parameters that the worker computed
    with, and that the update made."""

    worker: str
    clock: int  # the step of the worker, from 0
    read: int
    written: int

    @property
    def staleness(self) -> int:
        """Updates of others that the gradient knows nothing of."""
        return self.written - 1 - self.read


def staleness(history: Iterable[Update]) -> Mapping[int, int]:
    """How many updates were so stale."""
    return dict(sorted(Counter(update.staleness for update in history).items()))


def most_stale(workers: int, bound: int) -> int:
    """The most updates that a gradient can miss under the bound: each other worker is between `bound` steps behind at
    the beginning and `bound` ahead, with one more under way, at the end."""
    return (workers - 1) * (2 * bound + 1)


def violation(history: Sequence[Update], workers: int, bound: int) -> str:
    """The first update that came too far ahead of the slowest worker or was too stale; '' where the bound held."""
    clocks: Counter[str] = Counter()
    names = {update.worker for update in history}
    for number, update in enumerate(history):
        behind = min((clocks[name] for name in names), default=0) if len(names) == workers else 0
        if update.clock - behind > bound:
            return f"update {number}: {update.worker} was {update.clock - behind} steps ahead, the bound is {bound}"
        if update.staleness > most_stale(workers, bound):
            return f"update {number}: {update.worker} missed {update.staleness} updates"
        clocks[update.worker] = update.clock + 1
    return ""
