"""The lease of this node's attempts: the agent renews it while it lives, and shims end what runs when it does not.

The platform declares a node lost after a silence and starts its attempts elsewhere. A node that is merely cut off goes
on and is ended by the platform when it is back; one whose agent is dead or frozen has only this lease.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from agent.launchers.lease import LEASE, boot_ms, read_lease

RENEW_EVERY_SECONDS = 1.0
# Of the silence after which a node is lost: it is counted from the last heartbeat, the lease from the last renewal.
LEASE_SHARE = 0.9


class Lease:
    """Written in place, so that a full disk does not end the jobs."""

    def __init__(self, path: Path, seconds: float) -> None:
        """Goes on with the lease of an earlier agent that has not run out."""
        self.path, self._length_ms = path, round(seconds * 1000)
        now, earlier = boot_ms(), read_lease(str(path))
        runs_on = earlier is not None and earlier[0] <= now < earlier[0] + earlier[2]
        self._renewed_ms, self._since_ms = (earlier[0], earlier[1]) if earlier and runs_on else (now, now)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.renew()

    def last(self, seconds: float) -> None:
        """From now on it is so long."""
        self._length_ms = round(seconds * 1000)
        self.renew()

    def renew(self) -> None:
        now = boot_ms()
        if now - self._renewed_ms >= self._length_ms:
            self._since_ms = now  # it had run out: what runs from before must not go on with the new one
        self._renewed_ms = now
        os.pwrite(self._file, LEASE.pack(now, self._since_ms, self._length_ms), 0)

    async def keep(self) -> None:
        """For ever, on the event loop: an agent that no longer gets round to this does not heartbeat either."""
        while True:
            self.renew()
            await asyncio.sleep(RENEW_EVERY_SECONDS)

    def close(self) -> None:
        os.close(self._file)
