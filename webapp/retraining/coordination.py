"""The coordinator of retraining: any number may run, one leads at a time."""

from functools import partial

from platform_core.retraining.cycle import ASKS, ENDED
from webapp.base import lease, rounds
from webapp.base.lease import Leadership
from webapp.retraining import driving, looking
from webapp.retraining.models import Cycle, Policy


def coordinate() -> bool:
    """Runs one round: a look at each model with a policy, then a step of each open cycle.

    Returns False when another replica is in the middle of one.
    """
    return rounds.led("retraining", _round)


def _round(leadership: Leadership) -> None:
    fence = partial(lease.fenced, leadership)
    policies = Policy.objects.filter(model__deleted_ms=None).select_related("model", "author")
    rounds.each(
        "retraining policy", list(policies.order_by("pk")), lambda policy: looking.look(policy, fence)
    )
    waiting = Cycle.objects.exclude(state__in=list(ENDED | ASKS)).order_by("began_ms", "id")
    ids = list(waiting.values_list("id", flat=True))
    rounds.each("retraining", ids, lambda cycle_id: driving.drive(cycle_id, fence))
