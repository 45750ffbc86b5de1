"""The coordinator of deployments: any number may run, one leads at a time, and another adopts when it is gone.

Nothing is known to a coordinator alone. The plan and what it judges by are rows; what nodes hold is what their agents
say, all of it again with each new session. So to adopt is no more than to hold the lease: whoever comes next reads the
rows, and transfers under way have not noticed.
"""

from django.db import transaction

from platform_core.distribution.deployments import deployment as core
from platform_core.distribution.deployments.deployment import WorkerState
from webapp.base import lease, rounds
from webapp.base.identity import now_ms
from webapp.base.lease import Leadership
from webapp.deployments import services
from webapp.deployments.delivery import pacing, seating
from webapp.deployments.models import Deployment, Worker

PLANS_S = 60  # a plan for a thousand nodes is made within the transaction, on a machine that may be busy


def coordinate() -> bool:
    """One round. False when another replica is in the middle of one."""
    return rounds.led("deployments", _round)


def _round(leadership: Leadership) -> None:
    active = Deployment.objects.filter(state__in=list(core.ACTIVE)).order_by("id")
    ids = list(active.values_list("id", flat=True))
    rounds.each("deployment", ids, lambda deployment_id: look_after(deployment_id, leadership))


def look_after(deployment_id: str, leadership: Leadership) -> None:
    """Workers whose node is lost count as failed; those who became slower or quicker than they count are seated anew.

    LostLease, and nothing changed, when another coordinator leads by now.
    """
    with transaction.atomic():
        lease.check(leadership, PLANS_S)
        row = (
            Deployment.objects.select_for_update(of=("self",))
            .select_related("model_version__model")
            .get(id=deployment_id)
        )
        waiting = Worker.objects.filter(deployment=row, state__in=[WorkerState.IDLE, WorkerState.RECEIVING])
        if lost := list(waiting.filter(node__state="lost").values_list("node_id", flat=True)):
            services.nodes_lost(row, lost)
        seating.reseat(row)
        pacing.judge(row, now_ms())
