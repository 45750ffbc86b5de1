"""The coordinator of evaluations: any number may run, one leads at a time.

A round submits the jobs that are owed, and keeps the results of those that have ended. Killed at any moment, the next
round finds in the rows what is left to do.
"""

import logging

from platform_core.evaluations.states import SETTLED
from webapp.base import lease
from webapp.evaluations import driving
from webapp.evaluations.models import EvaluationRun

log = logging.getLogger(__name__)


def coordinate() -> bool:
    """Runs one round. Returns False when another replica is in the middle of one."""
    leadership = lease.acquire("evaluations", lease.candidate())
    if leadership is None:
        return False
    try:
        open_runs = EvaluationRun.objects.exclude(state__in=list(SETTLED)).order_by("pk")
        for run_id in list(open_runs.values_list("pk", flat=True)):
            _drive(run_id, lambda: lease.fenced(leadership))
    except lease.LostLease as lost:
        log.info("round dropped: %s", lost)
    finally:
        lease.release(leadership)
    return True


def _drive(run_id: int, fence: lease.Fence) -> None:
    """One run; one that fails does not keep the others waiting."""
    try:
        driving.drive(run_id, fence)
    except lease.LostLease:
        raise
    except Exception:
        log.exception("evaluation %s failed in this round; the next one tries again", run_id)
