"""What an agent says of its node, as values: the gateway converts messages into these."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SlotDescription:
    index: int
    name: str
    uuid: str = ""
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class NodeDescription:
    hostname: str
    rack: str
    block: str
    gpu_type: str
    slots: tuple[SlotDescription, ...]
    cpus: int
    memory_bytes: int
    disk_bytes: int
    agent_version: str
    address: str
    transfer_port: int
    rendezvous_port_low: int
    rendezvous_port_high: int
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlotTelemetry:
    """What the hardware does not have is None."""

    index: int
    utilisation: float | None = None  # 0..1
    memory_used_bytes: int | None = None
    temperature_celsius: float | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None


@dataclass(frozen=True, slots=True)
class Telemetry:
    disk_free_bytes: int
    memory_used_bytes: int
    slots: tuple[SlotTelemetry, ...] = ()
