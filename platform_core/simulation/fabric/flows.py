"""The bytes of the simulated fabric: one flow for each node and lane, all moved at once.

A step is a whole number of ticks; a tick is one piece at the usual rate. Within a step each port shares what it has
evenly among its flows, and what one flow leaves another takes. A flow never passes what its source held, whole and
verified, when the step began: so a hop costs at least a piece, and never less than in the real world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_WHOLE = 1e-6  # shares such as a third add up to a piece only nearly
_PASSES = 3
_NONE = -1


@dataclass(frozen=True, slots=True)
class Wiring:
    """Rates in pieces per tick; the last port is the store. `rack` numbers the nodes' racks, `uplink` 0: no limit."""

    lengths: Sequence[int]  # pieces in each lane
    up: Sequence[float]
    down: Sequence[float]
    rack: Sequence[int]
    uplink: float = 0.0


class Flows:
    """Flow v * lanes + l is what node v receives in lane l; after them those of the store, which has everything."""

    def __init__(self, wiring: Wiring) -> None:
        self.nodes, self.lanes = len(wiring.down), len(wiring.lengths)
        count = self.nodes * self.lanes
        self.length: Ints = np.tile(np.array(wiring.lengths, dtype=np.int64), self.nodes + 1)
        # The newest run ends here, a part of a piece included.
        self.top: Floats = np.zeros(count + self.lanes)
        self.top[count:] = self.length[count:]
        self.place: Floats = np.zeros(count)  # where the flow is: at the top, or in an older gap
        self.until: Ints = np.zeros(count, dtype=np.int64)
        self.settled: Bools = np.zeros(
            count, dtype=np.bool_
        )  # the source has all of it, in one of its older runs
        self.in_gap: Bools = np.zeros(count, dtype=np.bool_)
        self.source: Ints = np.full(count, _NONE, dtype=np.int64)  # port number
        self.alive: Bools = np.ones(self.nodes + 1, dtype=np.bool_)
        self.up: Floats = np.array(wiring.up)
        self.down: Floats = np.array(wiring.down)
        self.rack: Ints = np.array([*wiring.rack, _NONE], dtype=np.int64)
        self.uplink = wiring.uplink
        self._capacities = [self.up, self.down]
        if self.uplink:  # the last is for what stays within a rack
            racks = np.append(np.full(int(self.rack.max()) + 1, self.uplink), np.inf)
            self._capacities += [racks, racks]
        self.target: Ints = np.repeat(np.arange(self.nodes), self.lanes)
        self.lane: Ints = np.tile(np.arange(self.lanes), self.nodes)
        self.got: Floats = np.zeros(count)  # pieces, a part of one included
        self.moved = 0.0
        self.from_store = 0.0
        self.across = 0.0
        self.refresh()

    def refresh(self) -> None:
        """To be called after sources or lives changed."""
        sources = np.where(self.source == _NONE, self.nodes, self.source)
        self._sources = sources
        self._upstream = sources * self.lanes + self.lane
        self._live = (self.source != _NONE) & self.alive[self.target] & self.alive[sources]
        self._from_store = np.flatnonzero(sources == self.nodes)
        from_rack, to_rack = self.rack[sources], self.rack[self.target]
        enters = from_rack != to_rack  # the store's bytes, too
        leaves = enters & (from_rack != _NONE)
        self._crossing = np.flatnonzero(leaves)
        self._ports = [sources, self.target]
        if self.uplink:
            unlimited = len(self._capacities[-1]) - 1
            self._ports += [np.where(leaves, from_rack, unlimited), np.where(enters, to_rack, unlimited)]

    def step(self, ticks: int) -> Ints:
        """Moves everything; tells which flows reached the end of what they wanted."""
        limit = np.minimum(np.floor(self.top[self._upstream] + _WHOLE), self.until)
        np.copyto(limit, self.until, where=self.settled)
        need = np.where(self._live, limit - self.place, 0.0)
        np.maximum(need, 0.0, out=need)
        given = self._share(need, ticks)
        self.place += given
        np.copyto(self.top[: len(self.place)], self.place, where=~self.in_gap)
        self.moved += float(given.sum())
        self.from_store += float(given[self._from_store].sum())
        self.across += float(given[self._crossing].sum())
        self.got += given
        return np.flatnonzero((given > 0) & (self.place >= self.until - _WHOLE))

    def behind(self) -> Floats:
        """How far each flow is behind its source; nobody is behind the store."""
        follows = self._live & ~self.in_gap & (self._sources < self.nodes)
        behind: Floats = np.where(follows, self.top[self._upstream] - self.place, 0.0)
        return behind

    def _share(self, need: Floats, ticks: int) -> Floats:
        """What each flow gets. Those whose ports have enough for all get what they need."""
        limits = [capacity * ticks for capacity in self._capacities]
        crowded = np.zeros(len(need), dtype=np.bool_)
        for limit, ports in zip(limits, self._ports, strict=True):
            load = np.bincount(ports, weights=need, minlength=len(limit))
            crowded |= (load > limit + _WHOLE)[ports]
        if not crowded.any():
            return need
        flows = np.flatnonzero(crowded)
        given = need.copy()
        given[flows] = _filled(need[flows], limits, [ports[flows] for ports in self._ports])
        return given


def _filled(need: Floats, limits: list[Floats], ports: list[Ints]) -> Floats:
    """Progressive filling in a few passes: even shares of each port, then what others did not take."""
    given = np.zeros_like(need)
    for _ in range(_PASSES):
        wants = (need - given > _WHOLE).astype(np.float64)
        if not wants.any():
            break
        share = np.full_like(need, np.inf)
        for limit, port in zip(limits, ports, strict=True):
            wanting = np.bincount(port, weights=wants, minlength=len(limit))
            np.minimum(share, (limit / np.maximum(wanting, 1.0))[port], out=share)
        more = np.minimum(share, need - given) * wants
        given += more
        limits = [
            np.maximum(limit - np.bincount(port, weights=more, minlength=len(limit)), 0.0)
            for limit, port in zip(limits, ports, strict=True)
        ]
    return given
