"""The coordinator of retraining: any number may run, one leads at a time."""

import logging
from collections.abc import Callable
from typing import Any

from platform_core.retraining.cycle import ASKS, ENDED
from webapp.base import lease
from webapp.retraining import driving, looking
from webapp.retraining.models import Cycle, Policy

log = logging.getLogger(__name__)


def coordinate() -> bool:
    """Runs one round: a look at each model with a policy, then a step of each open cycle.

    Returns False when another replica is in the middle of one.
    """
    leadership = lease.acquire("retraining", lease.candidate())
    if leadership is None:
        return False

    def fence() -> Any:
        return lease.fenced(leadership)

    try:
        policies = (
            Policy.objects.filter(model__deleted_ms=None).select_related("model", "author").order_by("pk")
        )
        for policy in list(policies):
            _try(looking.look, policy, fence, f"the look at {policy.model}")
        waiting = Cycle.objects.exclude(state__in=list(ENDED | ASKS)).order_by("began_ms", "id")
        for cycle_id in list(waiting.values_list("id", flat=True)):
            _try(driving.drive, cycle_id, fence, f"retraining {cycle_id}")
    except lease.LostLease as lost:
        log.info("round dropped: %s", lost)
    finally:
        lease.release(leadership)
    return True


def _try(work: Callable[[Any, lease.Fence], None], subject: Any, fence: lease.Fence, what: str) -> None:
    """One that fails does not keep the others waiting."""
    try:
        work(subject, fence)
    except lease.LostLease:
        raise
    except Exception:
        log.exception("%s failed in this round; the next one tries again", what)
