"""Between protobuf messages and the values that services take."""

from typing import Any

from trainmaster_wire.agent.v1 import enrolment_pb2, session_pb2
from webapp.clusters.values import NodeDescription, SlotDescription, SlotTelemetry, Telemetry


def description(node: enrolment_pb2.NodeDescription) -> NodeDescription:
    return NodeDescription(
        hostname=node.hostname,
        rack=node.rack,
        block=node.block,
        gpu_type=node.gpu_type,
        slots=tuple(SlotDescription(s.index, s.name, s.uuid, s.memory_bytes, s.island) for s in node.slots),
        cpus=node.cpus,
        memory_bytes=node.memory_bytes,
        disk_bytes=node.disk_bytes,
        agent_version=node.agent_version,
        address=node.address,
        transfer_port=node.transfer_port,
        rendezvous_port_low=node.rendezvous_port_low,
        rendezvous_port_high=node.rendezvous_port_high,
        labels=dict(node.labels),
        receive_cap=node.receive_cap,
        send_cap=node.send_cap,
        versions=dict(node.versions),
        hardware_faults=list(node.hardware_faults),
    )


def telemetry(heartbeat: session_pb2.Heartbeat) -> Telemetry:
    return Telemetry(
        disk_free_bytes=heartbeat.disk_free_bytes,
        memory_used_bytes=heartbeat.memory_used_bytes,
        slots=tuple(
            SlotTelemetry(
                index=slot.index,
                utilisation=_optional(slot, "utilisation"),
                memory_used_bytes=_optional(slot, "memory_used_bytes"),
                temperature_celsius=_optional(slot, "temperature_celsius"),
                ecc_corrected=_optional(slot, "ecc_corrected"),
                ecc_uncorrected=_optional(slot, "ecc_uncorrected"),
                ecc_corrected_lifetime=_optional(slot, "ecc_corrected_lifetime"),
                ecc_uncorrected_lifetime=_optional(slot, "ecc_uncorrected_lifetime"),
            )
            for slot in heartbeat.slots
        ),
    )


def _optional(message: session_pb2.SlotTelemetry, field: Any) -> Any:
    return getattr(message, field) if message.HasField(field) else None
