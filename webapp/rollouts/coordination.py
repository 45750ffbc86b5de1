"""The coordinator of rollouts: any number may run, one leads at a time."""

import logging

from django.db import transaction

from webapp.base import lease
from webapp.base.lease import Leadership
from webapp.rollouts import services

log = logging.getLogger(__name__)


def coordinate() -> bool:
    """Runs one round. Returns False when another replica is in the middle of one."""
    leadership = lease.acquire("rollouts", lease.candidate())
    if leadership is None:
        return False
    try:
        for rollout_id in services.unsettled():
            advance(rollout_id, leadership)
    except lease.LostLease as lost:
        log.info("round dropped: %s", lost)
    finally:
        lease.release(leadership)
    return True


def advance(rollout_id: str, leadership: Leadership) -> None:
    """Ends a hold that is over, and sees nodes that were lost or came back.

    Raises LostLease, with nothing changed, when another coordinator leads by now.
    """
    with transaction.atomic():
        lease.check(leadership)
        services.look_at_the_clock(rollout_id)
