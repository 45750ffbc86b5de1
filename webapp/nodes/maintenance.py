"""Maintenance that operators book: nodes are kept free for it, drained at its begin, and back at its end."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from platform_core.cluster.health import DrainRequested, ResumeRequested
from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS, format_duration_ms
from webapp.accounts.permissions import Actor, require
from webapp.base.identity import now_ms
from webapp.base.lease import Fence
from webapp.events import services as events
from webapp.nodes import health, queries
from webapp.nodes.models import MaintenanceWindow, Node, Slot
from webapp.nodes.signals import capacity_changed

LONGEST_MS = 30 * DAY_MS
FURTHEST_MS = 365 * DAY_MS


@dataclass(frozen=True, slots=True)
class Vacate:
    """Jobs that may be moved are to leave this node now."""

    node_id: str
    cause: str
    by: str  # the actor who booked it


@transaction.atomic
def book(actor: Actor, nodes: Sequence[str], begin_ms: int, end_ms: int, reason: str) -> MaintenanceWindow:
    """From now on no job is placed on these nodes (ids or hostnames) whose limit would reach into the window."""
    require(actor, "node.operate")
    now = now_ms()
    names = list(dict.fromkeys(nodes))
    nodes_found = queries.find(names)
    unknown = [name for name in names if name not in nodes_found]
    if unknown or not names:
        why = f"there is no node {', '.join(unknown)}" if unknown else "name at least one"
        raise _refused("nodes", why)
    begin_ms = max(begin_ms, now)
    if end_ms <= begin_ms or end_ms - begin_ms > LONGEST_MS or begin_ms > now + FURTHEST_MS:
        longest, furthest = format_duration_ms(LONGEST_MS), format_duration_ms(FURTHEST_MS)
        why = f"it must end after it begins, last {longest} at most and begin within {furthest}"
        raise _refused("this window", why)
    window = MaintenanceWindow.objects.create(
        nodes=sorted({nodes_found[name].id for name in names}),
        begin_ms=begin_ms,
        end_ms=end_ms,
        reason=reason.strip()[:200],
        booked_by=actor.username,
    )
    period = f"from {format_duration_ms(begin_ms - now)} on for {format_duration_ms(end_ms - begin_ms)}"
    _record("MaintenanceBooked", window, actor, f"{period}{f': {window.reason}' if window.reason else ''}")
    return window


def book_now(actor: Actor, node_id: str, lasts_ms: int, reason: str) -> MaintenanceWindow:
    now = now_ms()
    return book(actor, [node_id], now, now + lasts_ms, reason)


def release(node_id: str) -> None:
    """End for this node all maintenance that is due: an operator lets it take jobs again."""
    due = MaintenanceWindow.objects.select_for_update().filter(over=False, begin_ms__lte=now_ms())
    for window in due.filter(nodes__contains=[node_id]).order_by("id"):
        window.nodes = [other for other in window.nodes if other != node_id]
        window.drained = [other for other in window.drained if other != node_id]
        window.over = not window.nodes
        window.save(update_fields=["nodes", "drained", "over"])


@transaction.atomic
def cancel(actor: Actor, window_id: int) -> None:
    """One that has begun ends now, and its nodes take work again."""
    require(actor, "node.operate")
    window = MaintenanceWindow.objects.select_for_update().filter(id=window_id, over=False).first()
    if window is None:
        raise TrainmasterError("not_found", what=f"maintenance window {window_id}")
    _end(window, actor.name)
    _record("MaintenanceCancelled", window, actor, window.reason)


def turn(moment_ms: int, fence: Fence = transaction.atomic) -> list[Vacate]:
    """Begin and end what is due; the nodes under maintenance that are in use, whose jobs the caller asks to leave."""
    rows = MaintenanceWindow.objects.filter(over=False, begin_ms__lte=moment_ms).order_by("id")
    vacated: list[Vacate] = []
    for row in rows:
        with fence():
            window = MaintenanceWindow.objects.select_for_update().get(id=row.id)
            if not window.over and moment_ms >= window.end_ms:
                _end(window, "system")
            elif not window.over and not window.begun:
                _begin(window, moment_ms)
        if not window.over:
            held = Slot.objects.filter(node__in=window.nodes).exclude(attempt_id=None)
            busy = held.order_by("node_id").values_list("node_id", flat=True).distinct()
            by = f"user:{window.booked_by}" if window.booked_by else "system"
            vacated += [Vacate(node, _cause(window), by) for node in busy]
    return vacated


def _begin(window: MaintenanceWindow, moment_ms: int) -> None:
    """Remembers which nodes it drained itself: those that were being drained already stay so afterwards."""
    drained = []
    for node in Node.objects.select_for_update(no_key=True).filter(id__in=window.nodes).order_by("id"):
        if not node.drain_requested:
            health.step(node, DrainRequested(at_ms=moment_ms, actor="system", cause=_cause(window)))
            drained.append(node.id)
    MaintenanceWindow.objects.filter(id=window.id).update(begun=True, drained=drained)
    window.begun = True


def _end(window: MaintenanceWindow, actor: str) -> None:
    others = MaintenanceWindow.objects.filter(over=False, begun=True).exclude(id=window.id)
    still = {node for other in others for node in other.nodes}
    for node in Node.objects.select_for_update(no_key=True).filter(id__in=window.drained).order_by("id"):
        if node.id in still:  # the other window gives it back
            other = next(each for each in others if node.id in each.nodes)
            other.drained = sorted({*other.drained, node.id})
            other.save(update_fields=["drained"])
        else:
            health.step(node, ResumeRequested(at_ms=now_ms(), actor=actor, cause="maintenance is over"))
    MaintenanceWindow.objects.filter(id=window.id).update(over=True)
    window.over = True
    capacity_changed.send(Node, node_id="")


def _cause(window: MaintenanceWindow) -> str:
    return f"maintenance{f': {window.reason}' if window.reason else ''}"


def _record(kind: str, window: MaintenanceWindow, actor: Actor, cause: str) -> None:
    names = queries.hostnames(window.nodes)
    for node_id in window.nodes:
        events.record(
            kind, f"node:{node_id}", actor=actor.name, cause=cause, data={"name": names[node_id]}, notify=("cluster",)
        )  # fmt: skip
    capacity_changed.send(Node, node_id="")


def _refused(what: str, why: str) -> TrainmasterError:
    return TrainmasterError("request_invalid", what=what, why=why)
