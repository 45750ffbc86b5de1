"""Nodes as their pages show them: rows, slots and telemetry brought together in a fixed number of queries."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from platform_core.cluster.health import LEAST_DISK_BYTES, NodeState, is_disk_full
from platform_core.units import format_bytes, plural
from webapp.accounts.permissions import Actor, may
from webapp.jobs import queries as job_queries
from webapp.jobs.values import JobFact
from webapp.nodes import liveness, mapping, queries
from webapp.nodes.models import Node
from webapp.nodes.queries import SlotUse
from webapp.nodes.values import SlotTelemetry, Telemetry
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


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look at the cluster brought together."""

    nodes: tuple[Node, ...]
    slots: Mapping[str, tuple[SlotUse, ...]]
    telemetry: Mapping[str, Telemetry]
    seen_ms: Mapping[str, int]
    holders: Mapping[str, Holder]  # by attempt
    jobs: Mapping[str, JobFact]


def look(nodes: Sequence[Node]) -> Seen:
    ids = [node.id for node in nodes]
    slots = queries.slots(ids)
    attempts = {slot.attempt_id for uses in slots.values() for slot in uses if slot.attempt_id}
    holders = quotas.holders(attempts)
    return Seen(
        nodes=tuple(nodes),
        slots=slots,
        telemetry=liveness.telemetry(ids),
        seen_ms=queries.last_seen({node.id: node.last_seen_ms for node in nodes}),
        holders=holders,
        jobs=job_queries.facts({holder.job_id for holder in holders.values()}),
    )


def rows(actor: Actor, seen: Seen) -> list[dict[str, Any]]:
    """What needs attention first."""
    order = {state: position for position, state in enumerate(ATTENTION)}
    nodes = sorted(seen.nodes, key=lambda node: (order[NodeState(node.state)], node.hostname, node.id))
    return [row(actor, seen, node) for node in nodes]


def row(actor: Actor, seen: Seen, node: Node) -> dict[str, Any]:
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
        "seen_ms": seen.seen_ms.get(node.id),
        "joined_ms": node.joined_ms,
        "labels": [f"{name}={value}" for name, value in sorted(node.all_labels.items())],
        "operator_labels": [f"{name}={value}" for name, value in sorted(node.operator_labels.items())],
        "taints": list(node.taints),
        "spot": mapping.is_spot(node),
        "leaving_ms": node.leaving_ms,
        "may_mark": operator,
        "jobs": _jobs(actor, seen, slots),
        "may_drain": operator and not node.drain_requested,
        "may_resume": operator and node.drain_requested,
        "may_revoke": operator,
        "may_readmit": may(actor, "node.operate") and _waits_outside(node),
        **_measured(telemetry, busy_slots={slot.index for slot in slots if slot.attempt_id}),
    }


def _waits_outside(node: Node) -> bool:
    """Whether it may join again only with an operator's word, which was not given yet."""
    return node.revoked_ms is not None or (node.state == NodeState.LOST and not node.rejoin_allowed)


def _note(node: Node, busy: int, telemetry: Telemetry | None) -> str:
    if node.revoked_ms is not None:
        return "its credential was revoked"
    if node.state == NodeState.DRAINING:
        return f"{busy} slot{'' if busy == 1 else 's'} in use, freed when their jobs end"
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
    said = telemetry or SILENT
    counted = [slot for slot in said.slots if slot.index in busy_slots] or list(said.slots)
    used = [slot.utilisation for slot in counted if slot.utilisation is not None]
    hottest = [slot.temperature_celsius for slot in said.slots if slot.temperature_celsius is not None]
    return {
        "utilisation": 100 * sum(used) / len(used) if used else None,
        "temperature": round(max(hottest)) if hottest else None,
        "ecc": _sum(_ecc(slot) for slot in said.slots),
        "memory_used": telemetry.memory_used_bytes if telemetry else None,
        "disk_free": telemetry.disk_free_bytes if telemetry else None,
    }


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


def _ecc(slot: SlotTelemetry) -> EccErrors | None:
    if slot.ecc_corrected is None and slot.ecc_uncorrected is None:
        return None
    return EccErrors(
        slot.ecc_corrected or 0,
        slot.ecc_uncorrected or 0,
        slot.ecc_corrected_lifetime,
        slot.ecc_uncorrected_lifetime,
    )


def _sum(errors: Iterable[EccErrors | None]) -> EccErrors | None:
    known = [each for each in errors if each is not None]
    if not known:
        return None
    lifetimes = [each for each in known if each.uncorrected_lifetime is not None]
    return EccErrors(
        sum(each.corrected for each in known),
        sum(each.uncorrected for each in known),
        sum(each.corrected_lifetime or 0 for each in lifetimes) if lifetimes else None,
        sum(each.uncorrected_lifetime or 0 for each in lifetimes) if lifetimes else None,
    )


def _jobs(actor: Actor, seen: Seen, slots: Sequence[SlotUse]) -> list[dict[str, str]]:
    """Each job once, however many of the slots it holds."""
    shown = {
        job["id"]: job for job in (_job(actor, seen, slot.attempt_id) for slot in slots if slot.attempt_id)
    }
    return sorted(shown.values(), key=lambda job: (job["name"], job["id"]))


def _job(actor: Actor, seen: Seen, attempt_id: str) -> dict[str, str]:
    """Whoever is not of the team learns that the slot is held, and no more."""
    holder = seen.holders.get(attempt_id)
    if holder is None or not may(actor, "job.view", holder.team):
        return {"id": "", "name": ANOTHER_TEAM, "user": ""}
    fact = seen.jobs.get(holder.job_id)
    return {"id": holder.job_id, "name": fact.name if fact else holder.job_id, "user": holder.user}


def slot_rows(actor: Actor, seen: Seen, node: Node) -> list[dict[str, Any]]:
    said = {slot.index: slot for slot in seen.telemetry.get(node.id, SILENT).slots}
    found = []
    for slot in seen.slots.get(node.id, ()):
        now = said.get(slot.index, SlotTelemetry(slot.index))
        found.append(
            {
                "index": slot.index,
                "name": slot.name,
                "island": slot.island,
                "job": _job(actor, seen, slot.attempt_id) if slot.attempt_id else None,
                "utilisation": None if now.utilisation is None else 100 * now.utilisation,
                "memory_used": now.memory_used_bytes,
                "memory_total": slot.memory_bytes,
                "temperature": None if now.temperature_celsius is None else round(now.temperature_celsius),
                "ecc": _ecc(now),
            }
        )
    return found


def sentence(nodes: Sequence[Mapping[str, Any]]) -> str:
    """ "4 nodes, 16 slots: 3 ready, 1 lost." """
    if not nodes:
        return "No nodes."
    states = Counter(node["state"] for node in nodes)
    words = ", ".join(
        f"{count} {state}" for state, count in sorted(states.items(), key=lambda item: (-item[1], item[0]))
    )
    slots = sum(node["slots"] for node in nodes)
    return f"{plural(len(nodes), 'node')}, {plural(slots, 'slot')}: {words}."


def kpis(nodes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    usable = [node for node in nodes if node["state"] == "ready"]
    busy, slots = sum(node["busy"] for node in nodes), sum(node["slots"] for node in nodes)
    free = sum(node["slots"] - node["busy"] for node in usable)
    used = [node["utilisation"] for node in nodes if node["utilisation"] is not None and node["busy"]]
    away = [node for node in nodes if node["state"] in ("lost", "suspect")]
    return [
        {"label": "Slots in use", "value": f"{busy} of {slots}", "note": f"{free} free on ready nodes"},
        {
            "label": "Utilisation",
            "value": f"{sum(used) / len(used):.0f} %" if used else "–",
            "note": "mean of the nodes that work",
        },
        {
            "label": "Silent",
            "value": f"{len(away)}",
            "note": "nodes suspect or lost",
            "tone": "bad" if away else "",
        },
    ]


def node_kpis(node: Mapping[str, Any]) -> list[dict[str, Any]]:
    utilisation = node["utilisation"]
    found = [
        {"label": "Slots in use", "value": f"{node['busy']} of {node['slots']}", "note": node["gpu_type"]},
        {
            "label": "Utilisation",
            "value": "–" if utilisation is None else f"{utilisation:.0f} %",
            "note": "mean of the slots in use" if node["busy"] else "mean of its slots",
        },
        {
            "label": "Memory",
            "value": "–" if node["memory_used"] is None else format_bytes(node["memory_used"]),
            "note": f"of {format_bytes(node['memory_total'])}",
        },
        {
            "label": "Disk free",
            "value": "–" if node["disk_free"] is None else format_bytes(node["disk_free"]),
            "note": "for bundles, data and models",
        },
    ]
    if node["temperature"] is not None:
        found.append(
            {"label": "Hottest slot", "value": f"{node['temperature']} °C", "note": "as its hardware says"}
        )
    if node["ecc"] is not None:
        errors: EccErrors = node["ecc"]
        found.append(
            {
                "label": "ECC errors",
                "value": f"{errors.uncorrected:,} uncorrected, {errors.corrected:,} corrected",
                "note": errors.note,
                "tone": "bad" if errors.uncorrected else "",
            }
        )
    return found


def facts(node: Node) -> list[tuple[str, str]]:
    ports = f"{node.rendezvous_port_low} to {node.rendezvous_port_high}"
    return [
        ("Id", node.id),
        ("Address", node.address),
        ("Transfer port", str(node.transfer_port)),
        ("Models in, at most", _cap(node.receive_cap)),
        ("Models out, at most", _cap(node.send_cap)),
        ("Rendezvous ports", ports),
        ("CPUs", str(node.cpus)),
        ("Memory", format_bytes(node.memory_bytes)),
        ("Disk", format_bytes(node.disk_bytes)),
        ("Agent", node.agent_version),
        *((label, node.versions[name]) for name, label in VERSIONS.items() if name in node.versions),
        *(("Failed hardware", fault) for fault in node.hardware_faults),
        ("Credential", "revoked" if node.revoked_ms is not None else "valid"),
    ]


def _cap(rate: int) -> str:
    return f"{format_bytes(rate)}/s" if rate else "no cap"
