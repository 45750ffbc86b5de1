"""What an agent says of its node, as values: the gateway converts messages into these."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SlotDescription:
    index: int
    name: str
    uuid: str = ""
    memory_bytes: int = 0
    island: int = 0  # slots of an equal number are linked with each other


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
    receive_cap: int = 0  # bytes per second of models; 0 is no cap
    send_cap: int = 0
    versions: dict[str, str] = field(default_factory=dict)  # python, torch, cuda, nccl, driver
    hardware_faults: list[str] = field(default_factory=list)  # sentences


WORKER_LABEL = "worker_id"  # under which a node without the agent goes by the name it gave itself


@dataclass(frozen=True, slots=True)
class Registration:
    """A worker without the agent, in its own words."""

    worker_id: str
    hostname: str
    rack: str
    available_storage: int  # bytes

    @property
    def description(self) -> NodeDescription:
        return NodeDescription(
            hostname=self.hostname,
            rack=self.rack,
            block="",
            gpu_type="no-agent",
            slots=(),
            cpus=0,
            memory_bytes=0,
            disk_bytes=self.available_storage,
            agent_version="without agent",
            address=self.hostname,
            transfer_port=0,
            rendezvous_port_low=0,
            rendezvous_port_high=0,
            labels={WORKER_LABEL: self.worker_id},
        )


@dataclass(frozen=True, slots=True)
class SlotTelemetry:
    """What the hardware does not have is None."""

    index: int
    utilisation: float | None = None  # 0..1
    memory_used_bytes: int | None = None
    temperature_celsius: float | None = None
    ecc_corrected: int | None = None  # since the driver was loaded
    ecc_uncorrected: int | None = None
    ecc_corrected_lifetime: int | None = None
    ecc_uncorrected_lifetime: int | None = None


@dataclass(frozen=True, slots=True)
class Telemetry:
    disk_free_bytes: int
    memory_used_bytes: int
    slots: tuple[SlotTelemetry, ...] = ()
