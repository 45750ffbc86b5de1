"""Nodes without the agent, which speak over REST: they offer no slots, and no other node fetches from them.

Such a worker names itself; its name is kept as a label, and the credential says which node it is.
"""

from django.db import transaction

from platform_core.cluster.health import Heartbeat
from platform_core.errors import TrainmasterError
from platform_core.node.description import Telemetry
from webapp.base.identity import now_ms
from webapp.nodes import enrolment, health, liveness
from webapp.nodes.models import Node
from webapp.nodes.values import WORKER_LABEL


def known(worker_id: str) -> str:
    """The node that goes by this name; empty when there is none yet."""
    there = Node.objects.filter(transfer_port=0, labels__contains={WORKER_LABEL: worker_id})
    return there.values_list("id", flat=True).order_by("joined_ms").first() or ""


def authenticate(credential: str, worker_id: str) -> Node:
    """The node whose credential this is, if it goes by that name; its id is a name too."""
    node = Node.objects.get(id=enrolment.node_of(credential))
    if node.transfer_port or worker_id not in (node.id, node.labels.get(WORKER_LABEL)):
        raise TrainmasterError("node_unknown", node=worker_id)
    return node


@transaction.atomic
def heard(node_id: str, available_storage: int | None = None) -> None:
    """It is alive; a lost one is back at once."""
    node = Node.objects.select_for_update(no_key=True).get(id=node_id)
    moment = now_ms()
    liveness.heard(node_id, Telemetry(available_storage or node.disk_bytes, 0), moment)
    health.step(node, Heartbeat(at_ms=moment, actor=f"node:{node_id}"))
