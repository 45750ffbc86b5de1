"""Notices that a machine is about to be taken away, as clouds give for spot instances."""

from django.db import transaction

from platform_core.cluster.health import DrainRequested, ResumeRequested
from platform_core.errors import TrainmasterError
from platform_core.units import SECOND_MS, format_duration_ms
from webapp.accounts.permissions import Actor, require
from webapp.base.identity import now_ms
from webapp.events import services as events
from webapp.nodes import health
from webapp.nodes.models import Node
from webapp.nodes.signals import leaving

LONGEST_SECONDS = 24 * 3600


def give_notice(actor: Actor, node_id: str, seconds: int) -> None:
    """The node goes in so many seconds: it takes nothing new, and all its jobs save and start again elsewhere."""
    require(actor, "node.operate")
    if not 0 <= seconds <= LONGEST_SECONDS:
        why = f"it must be a whole number from 0 to {LONGEST_SECONDS}"
        raise TrainmasterError("request_invalid", what=f"seconds {seconds}", why=why)
    _take(node_id, seconds, actor.name)


def heard_notice(node_id: str, seconds: int) -> None:
    """The same from the node's own agent, which says it with each heartbeat: only the first counts."""
    if Node.objects.filter(id=node_id, leaving_ms=None).exists():
        _take(node_id, min(seconds, LONGEST_SECONDS), f"node:{node_id}")


@transaction.atomic
def _take(node_id: str, seconds: int, actor: str) -> None:
    node = Node.objects.select_for_update(no_key=True).filter(id=node_id).first()
    if node is None:
        raise TrainmasterError("not_found", what=f"node {node_id}")
    now = now_ms()
    cause = f"spot notice: it goes in {format_duration_ms(seconds * SECOND_MS)}"
    known = node.leaving_ms is not None
    leaves_ms = now + seconds * SECOND_MS
    Node.objects.filter(id=node_id).update(leaving_ms=leaves_ms)
    if known:
        return
    events.record(
        "NodeNoticed", f"node:{node_id}", actor=actor, cause=cause, at_ms=now, data={"name": node.hostname},
        notify=("cluster",),
    )  # fmt: skip
    health.step(node, DrainRequested(at_ms=now, actor="system", cause=cause))
    sentence = f"{node.hostname} is taken away: {cause}"
    leaving.send(Node, node_id=node_id, cause=sentence, by=actor, at_ms=now, leaves_ms=leaves_ms)


def is_back(node: Node, now: int) -> None:
    """It calls after the time at which it was to go: it takes work again. Inside a transaction."""
    if node.leaving_ms is None or now < node.leaving_ms:
        return
    Node.objects.filter(id=node.id).update(leaving_ms=None)
    node.leaving_ms = None
    node.refresh_from_db(fields=["state", "drain_requested", "state_since_ms", "state_reason"])
    health.step(node, ResumeRequested(at_ms=now, actor="system", cause="it is back after its notice"))
