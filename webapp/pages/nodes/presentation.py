"""Nodes as their pages show them: rows, slots and telemetry brought together in a fixed number of queries."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from platform_core.cluster.health import NodeState
from platform_core.node.description import SlotTelemetry, Telemetry
from platform_core.units import MIB, format_bytes, plural
from webapp.accounts.permissions import Actor
from webapp.jobs import occupancy
from webapp.nodes.models import Node
from webapp.pages.figures import Figure
from webapp.pages.wording import slot_noun

ANOTHER_TEAM = "another team"
ATTENTION = [NodeState.LOST, NodeState.SUSPECT, NodeState.DRAINING, NodeState.DRAINED, NodeState.READY]
VERSIONS = {
    "python": "Python",
    "torch": "PyTorch",
    "cuda": "CUDA of PyTorch",
    "nccl": "NCCL",
    "driver": "GPU driver",
}
PROFILE_SHARES = {
    "sm_active": "SMs",
    "tensor_active": "tensor cores",
    "memory_bandwidth_used": "memory bandwidth",
}
PROFILE_RATES = {
    "NVLink": ("nvlink_received_bytes_per_second", "nvlink_sent_bytes_per_second"),
    "PCIe": ("pcie_received_bytes_per_second", "pcie_sent_bytes_per_second"),
}
SILENT = Telemetry(disk_free_bytes=0, memory_used_bytes=0)


def slot_rows(actor: Actor, seen: occupancy.Seen, node: Node) -> list[dict[str, Any]]:
    readings = {slot.index: slot for slot in seen.telemetry.get(node.id, SILENT).slots}
    lines = []
    for slot in seen.slots.get(node.id, ()):
        now = readings.get(slot.index, SlotTelemetry(slot.index))
        lines.append(
            {
                "index": slot.index,
                "name": slot.name,
                "island": slot.island,
                "out_of_service": slot.out_of_service,
                "job": occupancy.job_of_attempt(actor, seen, slot.attempt_id) if slot.attempt_id else None,
                "utilisation": None if now.utilisation is None else 100 * now.utilisation,
                "profile": profile(now.readings),
                "memory_used": now.memory_used_bytes,
                "memory_total": slot.memory_bytes,
                "temperature": None if now.temperature_celsius is None else round(now.temperature_celsius),
                "ecc": occupancy.ecc(now),
            }
        )
    return lines


def profile(readings: Mapping[str, float]) -> str:
    """ "SMs 93 % · tensor cores 71 % · memory bandwidth 45 % · PCIe 2.1 GiB/s"; empty without profiling counters."""
    shares = (
        f"{label} {100 * readings[name]:.0f} %" for name, label in PROFILE_SHARES.items() if name in readings
    )
    rates = {label: sum(readings.get(name, 0.0) for name in names) for label, names in PROFILE_RATES.items()}
    moved = (f"{label} {format_bytes(round(rate))}/s" for label, rate in rates.items() if rate >= MIB)
    return " · ".join((*shares, *moved))


def headline(nodes: Sequence[Mapping[str, Any]]) -> str:
    """ "12 of 16 GPUs in use"."""
    if not nodes:
        return "No nodes"
    noun = slot_noun(node["gpu_type"] for node in nodes)
    busy, slots = sum(node["busy"] for node in nodes), sum(node["slots"] for node in nodes)
    return f"{busy} of {plural(slots, noun)} in use"


def sentence(nodes: Sequence[Mapping[str, Any]]) -> str:
    """ "on 4 nodes: 3 ready, 1 lost"."""
    if not nodes:
        return ""
    states = Counter(node["state"] for node in nodes)
    words = ", ".join(
        f"{count} {state}" for state, count in sorted(states.items(), key=lambda item: (-item[1], item[0]))
    )
    return f"on {plural(len(nodes), 'node')}: {words}"


def figures(nodes: Sequence[Mapping[str, Any]]) -> list[Figure]:
    serving = [node for node in nodes if node["state"] == "ready" and not node["out_of_service"]]
    free = sum(node["slots"] - node["busy"] - node["idle_out_of_service"] for node in serving)
    used = [node["utilisation"] for node in nodes if node["utilisation"] is not None and node["busy"]]
    silent = [node for node in nodes if node["state"] in ("lost", "suspect")]
    return [
        Figure("Free", str(free), "on ready nodes"),
        Figure("Utilisation", f"{sum(used) / len(used):.0f} %" if used else "–", "mean of nodes in use"),
        Figure("No heartbeat", str(len(silent)), "nodes suspect or lost", "bad" if silent else ""),
    ]


def node_figures(node: Mapping[str, Any]) -> list[Figure]:
    utilisation = node["utilisation"]
    noun = slot_noun([node["gpu_type"]])
    figures = [
        Figure("In use", f"{node['busy']} of {plural(node['slots'], noun)}", node["gpu_type"]),
        Figure(
            "Utilisation",
            "–" if utilisation is None else f"{utilisation:.0f} %",
            f"mean of the {noun}s in use" if node["busy"] else f"mean of its {noun}s",
        ),
        Figure(
            "Memory",
            "–" if node["memory_used"] is None else format_bytes(node["memory_used"]),
            f"of {format_bytes(node['memory_total'])}",
        ),
        Figure(
            "Disk free",
            "–" if node["disk_free"] is None else format_bytes(node["disk_free"]),
            "for code, data and models",
        ),
    ]
    if node["temperature"] is not None:
        figures.append(Figure("Temperature", f"{node['temperature']} °C", f"hottest {noun}"))
    if node["ecc"] is not None:
        errors: occupancy.EccErrors = node["ecc"]
        figures.append(
            Figure(
                "ECC errors",
                f"{errors.uncorrected:,} uncorrected, {errors.corrected:,} corrected",
                errors.note,
                "bad" if errors.uncorrected else "",
            )
        )
    return figures


def facts(node: Node) -> list[tuple[str, str]]:
    ports = f"{node.rendezvous_port_low} to {node.rendezvous_port_high}"
    return [
        ("Id", node.id),
        ("Address", node.address),
        ("Transfer port", str(node.transfer_port)),
        ("Model receive limit", _cap(node.receive_cap)),
        ("Model send limit", _cap(node.send_cap)),
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
    return f"{format_bytes(rate)}/s" if rate else "unlimited"
