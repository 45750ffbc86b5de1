"""Carries out what the node machine of the core decides: the guarded update, the event, who has to know."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from django.db import connection, transaction
from django.db.models import Exists, OuterRef

from platform_core.cluster.health import (
    Emptied,
    Heartbeat,
    LoseMembers,
    NodeEvent,
    NodeHealth,
    NodeState,
    NodeStep,
    Silence,
    advance,
)
from webapp.base.lease import Fence
from webapp.events import services as events
from webapp.nodes import liveness, mapping, silence
from webapp.nodes.models import Node, Slot
from webapp.nodes.signals import capacity_changed
from webapp.nodes.silence import Heard

KEEP_EVERY_MS = 5_000  # how far the durable copy of "last seen" may lag behind the one in Redis


def step(node: Node, event: NodeEvent, reason: str = "") -> NodeStep | None:
    """Apply one event to the row as it was read; None when it has changed since. Inside a transaction.

    `reason` says it better than the machine can, which does not know a first call from one after silence.
    """
    result = advance(mapping.health(node), event, mapping.limits())
    if reason and result.health.state != node.state:
        result = replace(result, health=replace(result.health, reason=reason))
    return apply(mapping.health(node), result, event.actor)


def apply(before: NodeHealth, result: NodeStep, actor: str) -> NodeStep | None:
    after = result.health
    if replace(after, last_seen_ms=0) == replace(before, last_seen_ms=0):
        return result
    guard = Node.objects.filter(id=before.id, state=before.state, drain_requested=before.drain_requested)
    changed = guard.update(
        state=after.state,
        state_since_ms=after.since_ms,
        state_reason=after.reason,
        drain_requested=after.drain_requested,
    )
    if not changed:
        return None
    if after.state is not before.state:
        events.record(
            f"Node{after.state.capitalize()}",
            f"node:{before.id}",
            actor=actor,
            cause=after.reason,
            at_ms=after.since_ms,
            data={
                "before": before.state,
                "drain_requested": before.drain_requested,
                "name": Node.objects.values_list("hostname", flat=True).get(id=before.id),
            },
            notify=("cluster",),
        )
    if result.effects:
        capacity_changed.send(Node, node_id=before.id)
    return result


def sweep(
    now_ms: int, fence: Fence = transaction.atomic, clock: Callable[[], int] = silence.boot_ms
) -> tuple[str, ...]:
    """What heartbeats and silence mean by now, for every node. Returns the lost ones that have to be dealt with:

    those that became lost by this call, and those that still hold slots though they are lost, because whoever was
    to act on them died before it did.

    Silence counts only while a gateway was there to hear: a platform that was stopped loses no node.
    """
    seen = liveness.last_seen()
    held = Slot.objects.filter(node=OuterRef("pk")).exclude(attempt_id=None)
    nodes = list(Node.objects.annotate(holds=Exists(held)).order_by("id"))
    heard = silence.look([node.id for node in nodes], clock)
    lost = [node.id for node in nodes if node.state == NodeState.LOST and node.holds]
    for node in nodes:
        for event in _events(node, heard[node.id] if heard else None, seen.get(node.id, 0), now_ms):
            health = mapping.health(node)
            result = advance(health, event, mapping.limits())
            if result.health.state is health.state:
                continue
            with fence():
                applied = apply(health, result, event.actor)
            if applied is None:
                break  # stale: the next sweep looks again
            node.state, node.state_since_ms = result.health.state, result.health.since_ms
            lost += [effect.node for effect in result.effects if isinstance(effect, LoseMembers)]
    moments = {
        node.id: seen[node.id] for node in nodes if seen.get(node.id, 0) - node.last_seen_ms > KEEP_EVERY_MS
    }
    if moments:
        with fence():
            _keep_last_seen(moments)
    return tuple(lost)


def _events(node: Node, heard: Heard | None, seen_ms: int, now_ms: int) -> Iterable[NodeEvent]:
    if node.state == NodeState.LOST:
        return  # it is back with its Hello, which tells what it still runs
    if heard is not None and heard.quiet_ms >= mapping.limits().suspect_ms:
        yield Silence(now_ms=now_ms, quiet_ms=heard.quiet_ms, lease_ended=heard.lease_ended)
    elif heard is not None and heard.again:
        yield Heartbeat(at_ms=max(seen_ms, node.last_seen_ms))
    if node.state == NodeState.DRAINING and not node.holds:  # type: ignore[attr-defined]
        yield Emptied(at_ms=now_ms)


def _keep_last_seen(moments: dict[str, int]) -> None:
    """One statement for all: Redis may be emptied, and a node must not seem silent for it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE nodes_node SET last_seen_ms = heard.at_ms"
            " FROM unnest(%s::varchar[], %s::bigint[]) AS heard(id, at_ms) WHERE nodes_node.id = heard.id",
            [list(moments), list(moments.values())],
        )
