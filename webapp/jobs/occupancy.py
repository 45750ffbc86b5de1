"""Nodes and what runs on them, as one person may see it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from platform_core.cluster.health import LEAST_DISK_BYTES, NodeState, is_disk_full
from platform_core.node.description import SlotTelemetry, Telemetry
from platform_core.units import format_bytes
from webapp.accounts.permissions import Actor, may
from webapp.jobs import queries as job_queries
from webapp.jobs.values import JobFact
from webapp.nodes import queries
from webapp.nodes.queries import SlotUse
from webapp.quotas import queries as quotas
from webapp.quotas.queries import Holder

ANOTHER_TEAM = "another team"
ATTENTION = [NodeState.LOST, NodeState.SUSPECT, NodeState.DRAINING, NodeState.DRAINED, NodeState.READY]
VERSIONS = {
    "python": "Python",
    "torch": "PyTorch",
    "cuda": "CUDA of PyTorch",
    "nccl": "NCCL",
    "driver": "GPU driver",
}
SILENT = Telemetry(disk_free_bytes=0, memory_used_bytes=0)

if TYPE_CHECKING:
    from webapp.nodes.models import Node


@dataclass(frozen=True, slots=True)
class EccErrors:
    """Memory errors of one GPU or of several. Uncorrected ones cost a job its results; corrected ones are a warning."""

    corrected: int
    uncorrected: int
    corrected_lifetime: int | None
    uncorrected_lifetime: int | None

    @property
    def note(self) -> str:
        if self.uncorrected_lifetime is None:
            return "since the driver was loaded"
        return (
            f"since the driver was loaded; in its lifetime {self.uncorrected_lifetime:,} uncorrected,"
            f" {self.corrected_lifetime or 0:,} corrected"
        )


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look at the cluster brought together."""

    nodes: tuple["Node", ...]
    slots: Mapping[str, tuple[SlotUse, ...]]
    telemetry: Mapping[str, Telemetry]
    seen_ms: Mapping[str, int]
    holders: Mapping[str, Holder]  # by attempt
    jobs: Mapping[str, JobFact]


def look(nodes: Sequence["Node"]) -> Seen:
    ids = [node.id for node in nodes]
    slots = queries.slots(ids)
    attempts = {slot.attempt_id for uses in slots.values() for slot in uses if slot.attempt_id}
    holders = quotas.holders(attempts)
    return Seen(
        nodes=tuple(nodes),
        slots=slots,
        telemetry=queries.telemetry(ids),
        seen_ms=queries.last_seen({node.id: node.last_seen_ms for node in nodes}),
        holders=holders,
        jobs=job_queries.facts({holder.job_id for holder in holders.values()}),
    )


def rows(actor: Actor, seen: Seen) -> list[dict[str, Any]]:
    """What needs attention first."""
    order = {state: position for position, state in enumerate(ATTENTION)}
    away = {node_id for node_id, slots in seen.slots.items() if any(slot.out_of_service for slot in slots)}
    nodes = sorted(
        seen.nodes,
        key=lambda node: (
            order[NodeState(node.state)], not (node.out_of_service or node.id in away), node.hostname, node.id,
        ),
    )  # fmt: skip
    return [row(actor, seen, node) for node in nodes]


def row(actor: Actor, seen: Seen, node: "Node") -> dict[str, Any]:
    slots = seen.slots.get(node.id, ())
    telemetry = seen.telemetry.get(node.id)
    operator = may(actor, "node.operate") and node.revoked_ms is None
    busy = sum(1 for slot in slots if slot.attempt_id)
    return {
        "id": node.id,
        "name": node.hostname,
        "rack": node.rack,
        "block": node.block,
        "state": "revoked" if node.revoked_ms is not None else node.state,
        "note": _note(node, busy, telemetry),
        "gpu_type": node.gpu_type,
        "slots": len(slots),
        "busy": busy,
        "memory_total": node.memory_bytes,
        "agent_version": node.agent_version,
        "versions": node.versions,
        "hardware_faults": node.hardware_faults,
        "out_of_service": node.out_of_service,
        "idle_out_of_service": sum(1 for slot in slots if slot.out_of_service and not slot.attempt_id),
        "slots_out_of_service": {
            str(slot.index): slot.out_of_service for slot in slots if slot.out_of_service
        },
        "seen_ms": seen.seen_ms.get(node.id),
        "joined_ms": node.joined_ms,
        "labels": [f"{name}={value}" for name, value in sorted(node.all_labels.items())],
        "operator_labels": [f"{name}={value}" for name, value in sorted(node.operator_labels.items())],
        "taints": list(node.taints),
        "spot": queries.is_spot(node),
        "leaving_ms": node.leaving_ms,
        "may_mark": operator,
        "jobs": _jobs(actor, seen, slots),
        "may_drain": operator and not node.drain_requested,
        "may_resume": operator and node.drain_requested,
        "may_revoke": operator,
        "may_readmit": may(actor, "node.operate") and _waits_outside(node),
        **_measured(telemetry, busy_slots={slot.index for slot in slots if slot.attempt_id}),
    }


def _note(node: "Node", busy: int, telemetry: Telemetry | None) -> str:
    if node.revoked_ms is not None:
        return "its credential was revoked"
    if node.state == NodeState.DRAINING:
        return f"{busy} slot{'' if busy == 1 else 's'} in use, freed when their jobs end"
    if node.state == NodeState.READY and node.out_of_service:
        return f"out of service: {node.out_of_service}"
    if node.state == NodeState.READY:
        if telemetry is None or not is_disk_full(telemetry.disk_free_bytes):
            return ""
        free, least = format_bytes(telemetry.disk_free_bytes), format_bytes(LEAST_DISK_BYTES)
        return f"no new jobs: {free} of its disk are free, {least} are the least"
    return node.state_reason + (
        ", then to be drained" if node.drain_requested and node.state != NodeState.DRAINED else ""
    )


def _measured(telemetry: Telemetry | None, busy_slots: set[int]) -> dict[str, Any]:
    """Utilisation is the mean of the slots in use, of all slots when none is."""
    reading = telemetry or SILENT
    counted = [slot for slot in reading.slots if slot.index in busy_slots] or list(reading.slots)
    used = [slot.utilisation for slot in counted if slot.utilisation is not None]
    hottest = [slot.temperature_celsius for slot in reading.slots if slot.temperature_celsius is not None]
    return {
        "utilisation": 100 * sum(used) / len(used) if used else None,
        "temperature": round(max(hottest)) if hottest else None,
        "ecc": _sum(ecc(slot) for slot in reading.slots),
        "memory_used": telemetry.memory_used_bytes if telemetry else None,
        "disk_free": telemetry.disk_free_bytes if telemetry else None,
    }


def ecc(slot: SlotTelemetry) -> EccErrors | None:
    if slot.ecc_corrected is None and slot.ecc_uncorrected is None:
        return None
    return EccErrors(
        slot.ecc_corrected or 0,
        slot.ecc_uncorrected or 0,
        slot.ecc_corrected_lifetime,
        slot.ecc_uncorrected_lifetime,
    )


def _jobs(actor: Actor, seen: Seen, slots: Sequence[SlotUse]) -> list[dict[str, str]]:
    """Each job once, however many of the slots it holds."""
    shown = {
        job["id"]: job
        for job in (job_of_attempt(actor, seen, slot.attempt_id) for slot in slots if slot.attempt_id)
    }
    return sorted(shown.values(), key=lambda job: (job["name"], job["id"]))


def job_of_attempt(actor: Actor, seen: Seen, attempt_id: str) -> dict[str, str]:
    """Whoever is not of the team learns that the slot is held, and no more."""
    holder = seen.holders.get(attempt_id)
    if holder is None or not may(actor, "job.view", holder.team):
        return {"id": "", "name": ANOTHER_TEAM, "user": ""}
    fact = seen.jobs.get(holder.job_id)
    return {"id": holder.job_id, "name": fact.name if fact else holder.job_id, "user": holder.user}


def _waits_outside(node: "Node") -> bool:
    """Whether it may join again only with an operator's word, which was not given yet."""
    return node.revoked_ms is not None or (node.state == NodeState.LOST and not node.rejoin_allowed)


def _sum(errors: Iterable[EccErrors | None]) -> EccErrors | None:
    known = [errors_of_slot for errors_of_slot in errors if errors_of_slot is not None]
    if not known:
        return None
    lifetimes = [
        errors_of_slot for errors_of_slot in known if errors_of_slot.uncorrected_lifetime is not None
    ]
    return EccErrors(
        sum(errors_of_slot.corrected for errors_of_slot in known),
        sum(errors_of_slot.uncorrected for errors_of_slot in known),
        sum(errors_of_slot.corrected_lifetime or 0 for errors_of_slot in lifetimes) if lifetimes else None,
        sum(errors_of_slot.uncorrected_lifetime or 0 for errors_of_slot in lifetimes) if lifetimes else None,
    )
