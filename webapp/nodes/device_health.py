"""Device health carried out: findings as rows, slots and nodes out of service, and back by an operator."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import QuerySet

from platform_core.cluster import device_health as core
from platform_core.cluster.device_health import BY_CODE, WHOLE_NODE, Finding, Stage
from platform_core.errors import TrainmasterError
from platform_core.node.description import Telemetry
from webapp.accounts.permissions import Actor, require
from webapp.base.identity import now_ms
from webapp.base.lease import Fence
from webapp.events import services as events
from webapp.nodes import liveness
from webapp.nodes.models import DeviceFinding, Node, Slot
from webapp.nodes.signals import capacity_changed
from webapp.sockets import services as sockets

TOLD_BY_JOBS = (core.CORRUPTION, core.SUSPICION, core.FAILED_JOBS)


@dataclass(frozen=True, slots=True)
class Leave:
    """Jobs on these slots of the node (all of them, if none is named) are to save and move."""

    node_id: str
    slots: tuple[int, ...]
    cause: str


def judge_devices(
    moment_ms: int, of_jobs: Mapping[str, Mapping[str, float]], fence: Fence = transaction.atomic
) -> list[Leave]:
    """Judge the newest readings of the nodes with symptoms or open findings.

    `of_jobs`: by node the readings that come from what its jobs went through. Returns what is out of service for good
    and still in use.
    """
    opened = _open_findings()
    ailing = {*liveness.ailing(), *opened, *_suspected(of_jobs, opened)}
    telemetry = liveness.telemetry(sorted(ailing))
    for node_id in sorted(ailing):
        before, heard = opened.get(node_id, ()), telemetry.get(node_id)
        after = _judged(before, heard, of_jobs.get(node_id, {}), moment_ms)
        if after != before:
            with fence():
                _keep(node_id, before, after, moment_ms)
            opened[node_id] = after
    return _leaves(opened)


def _judged(
    before: tuple[Finding, ...], heard: Telemetry | None, of_jobs: Mapping[str, float], moment_ms: int
) -> tuple[Finding, ...]:
    if heard is None:
        return before
    return core.judge(
        before, {**heard.readings, **of_jobs}, {slot.index: slot.readings for slot in heard.slots}, moment_ms
    )


def _suspected(
    of_jobs: Mapping[str, Mapping[str, float]], opened: Mapping[str, Sequence[Finding]]
) -> set[str]:
    """Nodes that jobs speak against, the worst first; for each rule as many as may be out of service at once."""
    most = core.most_suspected(Node.objects.filter(revoked_ms=None).count()) if of_jobs else 0
    suspected: set[str] = set()
    for rule in (rule for rule in core.RULES if rule.reading in TOLD_BY_JOBS):
        out = sum(any(f.code == rule.code and f.is_active for f in findings) for findings in opened.values())
        counts = {node: readings.get(rule.reading, 0.0) for node, readings in of_jobs.items()}
        against = [node for node, count in counts.items() if count >= rule.at_least and node not in opened]
        against.sort(key=lambda node: (-counts[node], node))
        suspected.update(against[: max(0, most - out)])
    return suspected


def _open_findings(**filters: str) -> dict[str, tuple[Finding, ...]]:
    found: dict[str, list[Finding]] = defaultdict(list)
    for row in DeviceFinding.objects.filter(closed_ms=None, **filters).order_by("slot", "code"):
        if row.code in BY_CODE:
            found[row.node_id].append(finding_of(row))
    return {node: tuple(findings) for node, findings in found.items()}


def finding_of(row: DeviceFinding) -> Finding:
    return Finding(row.code, row.slot, Stage(row.stage), row.since_ms, row.began_ms, row.value, row.worst)


def _keep(node_id: str, before: Sequence[Finding], after: Sequence[Finding], moment_ms: int) -> None:
    """Writes the findings that changed, in the order of `judge`. Inside a transaction."""
    node = Node.objects.select_for_update(no_key=True).filter(id=node_id).first()
    if node is None or _open_findings(node=node_id).get(node_id, ()) != before:
        return  # an operator returned it meanwhile: the next round looks again
    old = {(finding.slot, finding.code): finding for finding in before}
    new = {(finding.slot, finding.code): finding for finding in after}
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            _write(node, old.get(key), new.get(key), moment_ms)
    _set_service(node, after)


def _write(node: Node, before: Finding | None, after: Finding | None, moment_ms: int) -> None:
    finding = after or before
    assert finding is not None
    row = DeviceFinding.objects.filter(node=node, slot=finding.slot, code=finding.code, closed_ms=None)
    was_active = before is not None and before.is_active
    if after is None:
        if before is not None and before.stage is Stage.WATCHED:
            row.delete()
        else:
            row.update(closed_ms=moment_ms)
        if was_active:
            _record("DeviceRecovered", node, "system", finding.sentence, moment_ms)
        return
    columns = {
        "stage": after.stage, "since_ms": after.since_ms, "began_ms": after.began_ms,
        "value": after.value, "worst": after.worst,
    }  # fmt: skip
    if not row.update(**columns):
        DeviceFinding.objects.create(node=node, slot=after.slot, code=after.code, **columns)
    if after.is_active and not was_active:
        _record("DeviceFault", node, "system", after.sentence, moment_ms)


def _set_service(node: Node, findings: Sequence[Finding]) -> None:
    """Slots and node are out of service exactly while a finding keeps jobs away from them."""
    reasons = core.out_of_service(findings)
    changed = False
    if node.out_of_service != (reason := reasons.get(WHOLE_NODE, "")):
        node.out_of_service, changed = reason, True
        node.save(update_fields=["out_of_service"])
    for slot in Slot.objects.select_for_update(no_key=True).filter(node=node).order_by("id"):
        if slot.out_of_service != (reason := reasons.get(slot.index, "")):
            slot.out_of_service, changed = reason, True
            slot.save(update_fields=["out_of_service"])
    if changed:
        capacity_changed.send(Node, node_id=node.id)
    sockets.publish(f"node:{node.id}")


def _leaves(opened: Mapping[str, Sequence[Finding]]) -> list[Leave]:
    moving = {
        node: [finding for finding in findings if finding.moves_jobs] for node, findings in opened.items()
    }
    used = _used_slots([node for node, findings in moving.items() if findings])
    leaves = []
    for node, findings in sorted(moving.items()):
        whole = any(finding.slot == WHOLE_NODE for finding in findings)
        slots = () if whole else tuple(sorted({finding.slot for finding in findings}))
        if findings and (used[node] if whole else used[node].intersection(slots)):
            leaves.append(Leave(node, slots, "; ".join(finding.sentence for finding in findings)))
    return leaves


def _used_slots(nodes: Collection[str]) -> dict[str, set[int]]:
    used: dict[str, set[int]] = defaultdict(set)
    held = Slot.objects.filter(node__in=nodes).exclude(attempt_id=None)
    for node, index in held.values_list("node_id", "index"):
        used[node].add(index)
    return used


@transaction.atomic
def return_to_service(actor: Actor, node_id: str, slot: int | None = None) -> None:
    """An operator has dealt with the faults of a node, or of one slot: only new or worse ones count from now on."""
    require(actor, "node.operate")
    node = Node.objects.select_for_update(no_key=True).filter(id=node_id).first()
    if node is None:
        raise TrainmasterError("not_found", what=f"node {node_id}")
    if not give_back(node, actor, slot):
        which = node.hostname if slot is None else f"slot {slot} of {node.hostname}"
        raise TrainmasterError("request_invalid", what="return", why=f"{which} is not out of service")


def give_back(node: Node, actor: Actor, slot: int | None = None) -> bool:
    """Whether anything was out of service. Inside a transaction."""
    rows = DeviceFinding.objects.filter(node=node, closed_ms=None)
    if slot is not None:
        rows = rows.filter(slot=slot)
    active = [row for row in rows if row.code in BY_CODE and finding_of(row).keeps_jobs_away]
    moment = now_ms()
    for row in active:
        finding = core.returned(finding_of(row), moment)
        row.stage, row.since_ms, row.worst = finding.stage, finding.since_ms, finding.worst
        row.returned_by = actor.username
        row.save(update_fields=["stage", "since_ms", "worst", "returned_by"])
    if active:
        left = [finding_of(row) for row in DeviceFinding.objects.filter(node=node, closed_ms=None)]
        _set_service(node, [finding for finding in left if finding.code in BY_CODE])
        sentences = "; ".join(finding_of(row).sentence for row in active)
        _record("DeviceReturned", node, actor.name, f"returned to service after: {sentences}", moment)
    return bool(active)


def history(node_id: str, limit: int) -> QuerySet[DeviceFinding]:
    """What was found on the node, open findings first, then the newest."""
    rows = DeviceFinding.objects.filter(node=node_id).exclude(stage=Stage.WATCHED)
    return rows.order_by("-closed_ms", "-began_ms", "-id")[:limit]  # NULL is greatest


def _record(kind: str, node: Node, actor: str, cause: str, at_ms: int) -> None:
    events.record(
        kind, f"node:{node.id}", actor=actor, cause=cause, at_ms=at_ms, data={"name": node.hostname},
        notify=("cluster",),
    )  # fmt: skip
