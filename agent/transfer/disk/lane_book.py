"""Which pieces of each lane are here, as runs, kept up to date piece by piece."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from platform_core.distribution.swarm.runs import Runs


class LaneBook:
    """Piece n is number n // L of lane n % L. `version` grows with every piece."""

    def __init__(self, lanes: int, numbers: Iterable[int] = ()) -> None:
        self.lanes = lanes
        self.version = 0
        self._firsts: list[list[int]] = [[] for _ in range(lanes)]
        self._ends: list[list[int]] = [[] for _ in range(lanes)]
        for number in numbers:
            self.add(number)

    def add(self, number: int) -> None:
        place, lane = divmod(number, self.lanes)
        firsts, ends = self._firsts[lane], self._ends[lane]
        at = bisect_right(firsts, place)
        if at and place < ends[at - 1]:
            return
        self.version += 1
        before, after = bool(at) and ends[at - 1] == place, at < len(firsts) and firsts[at] == place + 1
        if before and after:
            ends[at - 1] = ends.pop(at)
            firsts.pop(at)
        elif before:
            ends[at - 1] = place + 1
        elif after:
            firsts[at] = place
        else:
            firsts.insert(at, place)
            ends.insert(at, place + 1)

    def runs(self) -> tuple[Runs, ...]:
        pairs = zip(self._firsts, self._ends, strict=True)
        return tuple(tuple(zip(firsts, ends, strict=True)) for firsts, ends in pairs)
