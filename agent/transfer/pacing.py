"""One direction of this node's link: how much of it each model may take, so that moving them does not hurt those who
serve, and several share it by the weights of their deployments."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from math import inf

from platform_core.distribution.sharing import USUAL, Share, Use, allot

_BURST_SECONDS = 0.1
_LOOK_SECONDS = 0.5
_PEAK_LOOKS = 20


@dataclass(slots=True)
class _Flow:
    """What moves of one manifest."""

    taken: int = 0  # since the last look
    rate: float = 0.0  # at the last look
    allowed: float = inf
    free_at: float = 0.0  # when everything let through so far will have been paid for


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
            flow = self._flows[manifest_id] = _Flow()
            self._allot()
        flow.taken += size
        if now - self._looked_at >= _LOOK_SECONDS:
            self._look(now)
        if flow.allowed == inf:
            return
        wait = flow.free_at - now - _BURST_SECONDS
        flow.free_at = max(flow.free_at, now) + size / flow.allowed
        if wait > 0:
            await asyncio.sleep(wait)

    def _look(self, now: float) -> None:
        """Those that took nothing since the last time have no part in it."""
        self._flows = {key: flow for key, flow in self._flows.items() if flow.taken or flow.free_at > now}
        for flow in self._flows.values():
            flow.rate, flow.taken = flow.taken / (now - self._looked_at), 0
        self._looked_at = now
        self._seen.append(sum(flow.rate for flow in self._flows.values()))
        self._allot()

    def _allot(self) -> None:
        uses = {
            key: Use(self._shares.get(key, USUAL), flow.rate, flow.allowed)
            for key, flow in self._flows.items()
        }
        for key, allowed in allot(uses, self._capacity, max(self._seen, default=0.0)).items():
            self._flows[key].allowed = allowed
