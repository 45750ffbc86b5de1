"""Nodes as their pages show them: rows, slots and telemetry brought together in a fixed number of queries."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from platform_core.cluster.health import NodeState
from platform_core.node.description import SlotTelemetry, Telemetry
from platform_core.units import format_bytes, plural
from webapp.accounts.permissions import Actor
from webapp.jobs import occupancy
from webapp.nodes.models import Node

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


def slot_rows(actor: Actor, seen: occupancy.Seen, node: Node) -> list[dict[str, Any]]:
    said = {slot.index: slot for slot in seen.telemetry.get(node.id, SILENT).slots}
    found = []
    for slot in seen.slots.get(node.id, ()):
        now = said.get(slot.index, SlotTelemetry(slot.index))
        found.append(
            {
                "index": slot.index,
                "name": slot.name,
                "island": slot.island,
                "job": occupancy.job_of_attempt(actor, seen, slot.attempt_id) if slot.attempt_id else None,
                "utilisation": None if now.utilisation is None else 100 * now.utilisation,
                "memory_used": now.memory_used_bytes,
                "memory_total": slot.memory_bytes,
                "temperature": None if now.temperature_celsius is None else round(now.temperature_celsius),
                "ecc": occupancy.ecc(now),
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
        errors: occupancy.EccErrors = node["ecc"]
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
