"""The coordinator of rollouts: any number may run, one leads at a time."""

from django.db import transaction

from webapp.base import lease, rounds
from webapp.base.lease import Leadership
from webapp.rollouts import services


def coordinate() -> bool:
    """Runs one round. Returns False when another replica is in the middle of one."""
    return rounds.led("rollouts", _round)


def _round(leadership: Leadership) -> None:
    rounds.each("rollout", list(services.unsettled()), lambda rollout_id: advance(rollout_id, leadership))


def advance(rollout_id: str, leadership: Leadership) -> None:
    """Ends a hold that is over, and sees nodes that were lost or came back.

    Raises LostLease, with nothing changed, when another coordinator leads by now.
    """
    with transaction.atomic():
        lease.check(leadership)
        services.look_at_the_clock(rollout_id)
