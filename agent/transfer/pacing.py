"""A cap on bytes per second, so that moving models does not hurt those who serve them."""

from __future__ import annotations

import asyncio

_BURST_SECONDS = 0.1


class Cap:
    """Belongs to one event loop. 0 is no cap."""

    def __init__(self, bytes_per_second: int = 0) -> None:
        self._rate = bytes_per_second
        self._free_at = 0.0  # when everything let through so far will have been paid for

    async def take(self, size: int) -> None:
        """Returns when so many bytes may pass; those who came first pass first."""
        if not self._rate:
            return
        now = asyncio.get_running_loop().time()
        wait = self._free_at - now - _BURST_SECONDS
        self._free_at = max(self._free_at, now) + size / self._rate
        if wait > 0:
            await asyncio.sleep(wait)
