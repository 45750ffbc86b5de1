"""The lease of this node's attempts, which acknowledged heartbeats extend; shims end what runs when it has run out.

The platform declares a node lost after a longer silence and starts its attempts elsewhere. So a rank lives once, also
where the agent is dead or frozen, the network lets nothing through, or only one way.
"""

from __future__ import annotations

import os
from pathlib import Path

from agent.launchers.lease import LEASE, boot_ms, read_lease
from platform_core.cluster import leases
from platform_core.cluster.leases import NO_LEASE, lease_ms

DEFAULT_LOST_MS = 30_000  # of a gateway that does not say


class NodeLease:
    """Written in place, so that a full disk does not end the jobs."""

    def __init__(self, path: Path) -> None:
        """Goes on with the lease of an earlier agent, which nothing but an acknowledgement extends."""
        self.path = path
        earlier = read_lease(str(path))
        # One from the future is from before a reboot.
        self._lease = earlier if earlier is not None and earlier.sent_ms <= boot_ms() else NO_LEASE
        self._length_ms = self._lease.length_ms or lease_ms(DEFAULT_LOST_MS)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._write()

    def last(self, lost_ms: int) -> None:
        """What is acknowledged from now on counts for as long as suits a node that is lost after this silence."""
        self._length_ms = lease_ms(lost_ms)

    def acknowledge(self, sent_ms: int) -> bool:
        """The platform has the heartbeat that was sent then. False: the lease had run out before."""
        held = self.holds()
        self._lease = leases.acknowledge(self._lease, sent_ms, boot_ms(), self._length_ms)
        self._write()
        return held

    def holds(self) -> bool:
        return self._lease.left_ms(boot_ms()) > 0

    def close(self) -> None:
        os.close(self._file)

    def _write(self) -> None:
        lease = self._lease
        os.pwrite(self._file, LEASE.pack(lease.sent_ms, lease.since_ms, lease.length_ms), 0)
