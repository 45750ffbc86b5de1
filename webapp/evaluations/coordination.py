"""The coordinator of evaluations: any number may run, one leads at a time.

A round submits the jobs that are owed, and keeps the results of those that have ended. Killed at any moment, the next
round finds in the rows what is left to do.
"""

from functools import partial

from platform_core.evaluations.states import SETTLED
from webapp.base import lease, rounds
from webapp.base.lease import Leadership
from webapp.evaluations import driving
from webapp.evaluations.models import EvaluationRun


def coordinate() -> bool:
    """Runs one round. Returns False when another replica is in the middle of one."""
    return rounds.led("evaluations", _round)


def _round(leadership: Leadership) -> None:
    unsettled = EvaluationRun.objects.exclude(state__in=list(SETTLED)).order_by("pk")
    fence = partial(lease.fenced, leadership)
    ids = list(unsettled.values_list("pk", flat=True))
    rounds.each("evaluation", ids, lambda run_id: driving.drive(run_id, fence))
