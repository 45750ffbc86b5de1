"""The coordinator of sweeps: any number may run, one leads at a time.

A round of a sweep looks at its jobs, proposes what may run next and carries out what is owed. Killed at any moment, the
next round finds in the rows what is left to do.
"""

from functools import partial

from webapp.base import lease, rounds
from webapp.base.lease import Leadership
from webapp.sweeps import driving, services


def coordinate() -> bool:
    """Runs one round. Returns False when another replica is in the middle of one."""
    return rounds.led("sweeps", _round)


def _round(leadership: Leadership) -> None:
    fence = partial(lease.fenced, leadership)
    rounds.each("sweep", list(services.unsettled()), lambda sweep_id: driving.drive(sweep_id, fence))
