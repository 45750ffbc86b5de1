"""One direction of this node's link: how much of it each model may take, so that moving them does not hurt those who
serve, and several share it by the weights of their deployments."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from math import inf

from platform_core.distribution.deployments.sharing import USUAL, Share, Use, allot

_BURST_SECONDS = 0.1
_LOOK_SECONDS = 0.5
_PEAK_LOOKS = 20
_SHORTEST_SECONDS = 0.001  # of a wait
_PAUSE_SECONDS = 10.0  # what moved before such a pause says nothing about the link


@dataclass(slots=True)
class _Flow:
    """What moves of one manifest."""

    taken: int = 0  # since the last look
    rate: float = 0.0  # at the last look
    took_at: float = 0.0
    allowed: float = inf
    asked: int = 0  # bytes, since it began
    paid: float = 0.0  # of them, at the rates that were allowed
    paid_at: float = 0.0

    def pay(self, now: float) -> None:
        earned = inf if self.allowed == inf else (now - self.paid_at) * self.allowed
        self.paid, self.paid_at = min(self.asked, self.paid + earned), now


class Link:
    """Belongs to one event loop. `capacity` in bytes per second, 0: nobody said what it can do."""

    def __init__(self, capacity: int = 0) -> None:
        self._capacity = capacity or inf
        self._shares: dict[str, Share] = {}
        self._flows: dict[str, _Flow] = {}
        self._looked_at = 0.0
        self._seen: deque[float] = deque(maxlen=_PEAK_LOOKS)  # bytes per second of all, look by look

    def order(self, manifest_id: str, share: Share) -> None:
        """From now on; what was not ordered moves as usual."""
        self._shares[manifest_id] = share
        self._allot()

    def forget(self, manifest_id: str) -> None:
        self._shares.pop(manifest_id, None)
        self._allot()

    async def take(self, manifest_id: str, size: int) -> None:
        """Returns when so many bytes may pass; those of one manifest that came first pass first."""
        now = asyncio.get_running_loop().time()
        flow = self._flows.get(manifest_id)
        if flow is None:
            flow = self._flows[manifest_id] = _Flow(paid_at=now)
            self._allot()
        flow.taken, flow.took_at = flow.taken + size, now
        before, flow.asked = flow.asked, flow.asked + size
        try:
            while (wait := self._wait(flow, before)) > _SHORTEST_SECONDS:
                await asyncio.sleep(min(wait, _LOOK_SECONDS))  # what it may take can be more by then
        except asyncio.CancelledError:  # it does not pass: those behind it have its turn
            flow.paid, flow.taken = min(flow.asked, flow.paid + size), max(0, flow.taken - size)
            raise

    def _wait(self, flow: _Flow, before: int) -> float:
        """Until what was asked for before has been paid for."""
        now = asyncio.get_running_loop().time()
        if now - self._looked_at >= _LOOK_SECONDS:
            self._look(now)
        flow.pay(now)
        unpaid = before - flow.paid
        return unpaid / flow.allowed - _BURST_SECONDS if unpaid > 0 else 0.0

    def _look(self, now: float) -> None:
        """Those that took nothing since the last time have no part in it."""
        seconds, self._looked_at = now - self._looked_at, now
        for flow in self._flows.values():
            flow.pay(now)
            flow.taken = flow.taken if now - flow.took_at < _PAUSE_SECONDS else 0
        self._flows = {key: flow for key, flow in self._flows.items() if flow.taken or flow.paid < flow.asked}
        if seconds < _PAUSE_SECONDS:
            for flow in self._flows.values():
                flow.rate = flow.taken / seconds
            self._seen.append(sum(flow.rate for flow in self._flows.values()))
        else:
            self._seen.clear()
        for flow in self._flows.values():
            flow.taken = 0
        self._allot()

    def _allot(self) -> None:
        uses = {
            key: Use(self._shares.get(key, USUAL), flow.rate, flow.allowed)
            for key, flow in self._flows.items()
        }
        for key, allowed in allot(uses, self._capacity, max(self._seen, default=0.0)).items():
            self._flows[key].allowed = allowed
