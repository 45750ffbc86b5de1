"""The coordinator of sweeps: any number may run, one leads at a time.

A round of a sweep looks at its jobs, proposes what may run next and carries out what is owed. Killed at any moment, the
next round finds in the rows what is left to do.
"""

import logging

from webapp.base import lease
from webapp.base.lease import Fence
from webapp.sweeps import driving, services

log = logging.getLogger(__name__)


def coordinate() -> bool:
    """Runs one round. Returns False when another replica is in the middle of one."""
    leadership = lease.acquire("sweeps", lease.candidate())
    if leadership is None:
        return False
    try:
        for sweep_id in services.unsettled():
            drive(sweep_id, lambda: lease.fenced(leadership))
    except lease.LostLease as lost:
        log.info("round dropped: %s", lost)
    finally:
        lease.release(leadership)
    return True


def drive(sweep_id: str, fence: Fence) -> None:
    """One round of one sweep; a sweep that fails does not keep the others waiting."""
    try:
        driving.drive(sweep_id, fence)
    except lease.LostLease:
        raise
    except Exception:
        log.exception("the round of sweep %s failed; the next one tries again", sweep_id)
