"""Nodes without the agent."""

from dataclasses import dataclass

from platform_core.node.description import NodeDescription

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
