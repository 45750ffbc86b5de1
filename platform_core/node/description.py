"""What a node is, and how busy it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SlotDescription:
    index: int
    name: str  # "NVIDIA H100 80GB HBM3", "CPU slot"
    uuid: str = ""  # of the GPU, empty for a CPU slot
    memory_bytes: int = 0
    island: int = 0  # slots of an equal number are linked by NVLink; 0: with no other, or not known


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """Sent when a node joins, and at the beginning of each session."""

    hostname: str
    rack: str
    block: str
    gpu_type: str  # slug, "cpu" for CPU slots
    slots: tuple[SlotDescription, ...]
    cpus: int
    memory_bytes: int
    disk_bytes: int
    agent_version: str
    address: str  # host or IP that other nodes reach
    transfer_port: int
    rendezvous_port_low: int
    rendezvous_port_high: int
    labels: Mapping[str, str] = field(default_factory=dict)
    receive_cap: int = 0  # bytes per second of models; 0: no cap
    send_cap: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)  # python, torch, cuda, nccl, driver
    hardware_faults: tuple[str, ...] = ()  # sentences
    # Takes orders to have files ready that no attempt needs yet; earlier agents take them for models.
    holds_ready_files: bool = False


POWER = "power_watts"


@dataclass(frozen=True, slots=True)
class SlotTelemetry:
    """None where the hardware does not have it."""

    index: int
    utilisation: float | None = None  # 0..1
    memory_used_bytes: int | None = None
    temperature_celsius: float | None = None
    ecc_corrected: int | None = None  # memory errors since the driver was loaded
    ecc_uncorrected: int | None = None
    ecc_corrected_lifetime: int | None = None
    ecc_uncorrected_lifetime: int | None = None
    readings: Mapping[str, float] = field(default_factory=dict)  # of device health, and POWER; 0 is left out


@dataclass(frozen=True, slots=True)
class Telemetry:
    disk_free_bytes: int
    memory_used_bytes: int
    slots: tuple[SlotTelemetry, ...] = ()
    readings: Mapping[str, float] = field(default_factory=dict)  # of the node, as those of a slot
    holds: tuple[str, ...] = ()  # manifests of datasets and models that are whole on it
