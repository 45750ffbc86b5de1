"""Between protobuf messages and the values that services take. What a node says is checked here, once.

A description that cannot be is refused with a sentence. Of what arrives again and again, a number or a text that cannot
be is brought into its range or left out, and a row whose kind is not known is passed over: it costs nothing else.
"""

import math
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from platform_core.errors import TrainmasterError
from platform_core.json_values import storable
from trainmaster_wire.agent.v1 import enrolment_pb2, session_pb2
from webapp.deployments.values import ActivationReport, WorkerReport
from webapp.nodes.values import NodeDescription, SlotDescription, SlotTelemetry, Telemetry

T = TypeVar("T", int, float)

MAX_SLOTS = 1024
MAX_LABELS = 100
MAX_PORT = 2**16 - 1
MAX_INT, MAX_BIGINT = 2**31 - 1, 2**63 - 1  # of a column
MAX_BYTES = 2**50  # of a delivery: what a thousand nodes have fits into a column together
MAX_RATE = 1e15
MAX_SENTENCE = 2_000
MAX_OUTPUT = 64 * 1024
MAX_CHUNKS_BYTES = 2**17  # of a bitmap: a million chunks
MAX_ROWS = 10_000  # of one kind in one message
MAX_CELSIUS = 1_000.0
MAX_MS = 253_402_300_799_000  # the end of the year 9999: no calendar goes on
# What reading something that a node or a script wrote may raise.
UNREADABLE = (
    TrainmasterError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip
_ID = re.compile(r"[A-Za-z0-9_.-]{1,40}")


def description(node: enrolment_pb2.NodeDescription) -> NodeDescription:
    """Raises request_invalid for the first thing that no node is like."""
    low, high = node.rendezvous_port_low, node.rendezvous_port_high
    _require(
        len(node.slots) <= MAX_SLOTS, f"it has {len(node.slots):,} slots, and {MAX_SLOTS:,} is the limit"
    )
    _require(len({slot.index for slot in node.slots}) == len(node.slots), "two slots have the same index")
    _require(low <= high, f"its rendezvous ports begin at {low} and end at {high}")
    faults = len(node.hardware_faults)
    _require(faults <= MAX_SLOTS, f"it has {faults:,} hardware faults, and {MAX_SLOTS:,} is the limit")
    return NodeDescription(
        hostname=_text("hostname", node.hostname, 120, needed=True),
        rack=_text("rack", node.rack, 60),
        block=_text("block", node.block, 60),
        gpu_type=_text("gpu_type", node.gpu_type, 60, needed=True),
        slots=tuple(_slot(slot) for slot in node.slots),
        cpus=_whole("cpus", node.cpus, MAX_INT),
        memory_bytes=_whole("memory_bytes", node.memory_bytes, MAX_BIGINT),
        disk_bytes=_whole("disk_bytes", node.disk_bytes, MAX_BIGINT),
        agent_version=_text("agent_version", node.agent_version, 40),
        address=_text("address", node.address, 255),
        transfer_port=_whole("transfer_port", node.transfer_port, MAX_PORT),
        rendezvous_port_low=_whole("rendezvous_port_low", low, MAX_PORT),
        rendezvous_port_high=_whole("rendezvous_port_high", high, MAX_PORT),
        labels=_texts("label", node.labels),
        receive_cap=_whole("receive_cap", node.receive_cap, MAX_BIGINT),
        send_cap=_whole("send_cap", node.send_cap, MAX_BIGINT),
        versions=_texts("version", node.versions),
        hardware_faults=[_sentence(fault, 500) for fault in node.hardware_faults],
    )


def _slot(slot: enrolment_pb2.SlotDescription) -> SlotDescription:
    return SlotDescription(
        index=_whole("index of a slot", slot.index, MAX_INT),
        name=_text("name of a slot", slot.name, 120),
        uuid=_text("uuid of a slot", slot.uuid, 80),
        memory_bytes=_whole("memory_bytes of a slot", slot.memory_bytes, MAX_BIGINT),
        island=_whole("island of a slot", slot.island, MAX_INT),
    )


def _require(holds: bool, why: str) -> None:
    if not holds:
        raise TrainmasterError("request_invalid", what="The description of the node", why=why)


def _text(field: str, text: str, longest: int, *, needed: bool = False) -> str:
    shown = repr(text[:40])
    _require(
        len(text) <= longest, f"{field} {shown} has {len(text):,} characters, and {longest} is the limit"
    )
    _require(text.isprintable(), f"{field} {shown} is no line of readable text")
    _require(bool(text.strip()) or not needed, f"{field} is missing")
    return text


def _texts(field: str, texts: Mapping[str, str]) -> dict[str, str]:
    _require(len(texts) <= MAX_LABELS, f"it has {len(texts):,} {field}s, and {MAX_LABELS} is the limit")
    return {
        _text(field, key, 120): _text(f"{field} {key[:40]!r}", value, 255) for key, value in texts.items()
    }


def _whole(field: str, number: int, most: int) -> int:
    _require(number <= most, f"{field} is {number:,}, and {most:,} is the limit")
    return number


def telemetry(heartbeat: session_pb2.Heartbeat) -> Telemetry:
    return Telemetry(
        disk_free_bytes=min(heartbeat.disk_free_bytes, MAX_BIGINT),
        memory_used_bytes=min(heartbeat.memory_used_bytes, MAX_BIGINT),
        slots=tuple(
            SlotTelemetry(
                index=slot.index,
                utilisation=_measured(slot, "utilisation", 0.0, 1.0),
                memory_used_bytes=_measured(slot, "memory_used_bytes", 0, MAX_BIGINT),
                temperature_celsius=_measured(slot, "temperature_celsius", -MAX_CELSIUS, MAX_CELSIUS),
                ecc_corrected=_measured(slot, "ecc_corrected", 0, MAX_BIGINT),
                ecc_uncorrected=_measured(slot, "ecc_uncorrected", 0, MAX_BIGINT),
                ecc_corrected_lifetime=_measured(slot, "ecc_corrected_lifetime", 0, MAX_BIGINT),
                ecc_uncorrected_lifetime=_measured(slot, "ecc_uncorrected_lifetime", 0, MAX_BIGINT),
            )
            for slot in heartbeat.slots[:MAX_SLOTS]
        ),
    )


def _measured(message: session_pb2.SlotTelemetry, field: Any, low: T, high: T) -> T | None:
    """None for what is absent, not a number or infinite."""
    number: T = getattr(message, field)
    if not message.HasField(field) or not math.isfinite(number):
        return None
    return max(low, min(number, high))


def attempts(observed: session_pb2.Observed) -> list[session_pb2.AttemptObserved]:
    """Those whose id may be one of ours; their reasons may be kept."""
    told = [each for each in observed.attempts[:MAX_ROWS] if _ID.fullmatch(each.attempt_id)]
    for each in told:
        each.reason = _sentence(each.reason)
    return told


def worker_reports(observed: session_pb2.Observed) -> list[WorkerReport]:
    reports = (_worker(each) for each in observed.deployments[:MAX_ROWS])
    return [report for report in reports if report is not None]


def _worker(deployment: session_pb2.DeploymentObserved) -> WorkerReport | None:
    state = _name_of(session_pb2.DeploymentObserved.State, deployment.state)
    if state is None or not _ID.fullmatch(deployment.deployment_id):
        return None
    return WorkerReport(
        deployment_id=deployment.deployment_id,
        state=state,
        bytes_done=min(deployment.bytes_done, MAX_BYTES),
        bytes_total=min(deployment.bytes_total, MAX_BYTES),
        chunks_done=deployment.chunks_done[:MAX_CHUNKS_BYTES],
        rate_in=_rate(deployment.rate_in),
        rate_out=_rate(deployment.rate_out),
        source=_id(deployment.source),
        error_code=_id(deployment.error_code),
        error=_sentence(deployment.error),
        retries=min(deployment.retries, MAX_INT),
        distrusted=tuple(_id(each) for each in deployment.distrusted[:MAX_SLOTS]),
        store_bytes=min(deployment.store_bytes, MAX_BYTES),
        held=tuple(min(lane, MAX_BYTES) for lane in deployment.held[:MAX_SLOTS]),
        refused_bytes=min(deployment.refused_bytes, MAX_BYTES),
    )


def activation_reports(observed: session_pb2.Observed) -> list[ActivationReport]:
    reports = (_activation(each) for each in observed.activations[:MAX_ROWS])
    return [report for report in reports if report is not None]


def _activation(observed: session_pb2.ActivationObserved) -> ActivationReport | None:
    state = _name_of(session_pb2.ActivationObserved.State, observed.state)
    if state is None or not all(
        map(_is_storable, (observed.model, observed.version, observed.deployment_id))
    ):
        return None
    return ActivationReport(
        model=observed.model,
        version=observed.version,
        deployment_id=observed.deployment_id,
        revision=min(observed.revision, MAX_INT),
        state=state,
        exit_code=observed.exit_code,
        output=_sentence(observed.output, MAX_OUTPUT),
        round=min(observed.round, MAX_INT),
        check_exit_code=observed.check_exit_code,
        check_output=_sentence(observed.check_output, MAX_OUTPUT),
    )


def _name_of(states: Any, number: int) -> str | None:
    """None for one that this version does not know, and for none at all."""
    return None if number == 0 or number not in states.values() else str(states.Name(number)).lower()


def _is_storable(text: str) -> bool:
    return len(text) <= 255 and text == storable(text)


def whole(number: int) -> int:
    """A step, as a column takes it. Raises ValueError."""
    if not 0 <= number <= MAX_BIGINT:
        raise ValueError(f"{number!r:.60} is no step: it must be 0 to {MAX_BIGINT}")
    return number


def moment(at_ms: int) -> int:
    """A time, as a page can write it. Raises ValueError."""
    if not 0 <= at_ms <= MAX_MS:
        raise ValueError(f"{at_ms!r:.60} is no time in milliseconds since 1970")
    return at_ms


def is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def _id(text: str) -> str:
    return text if _ID.fullmatch(text) else ""


def _sentence(text: str, longest: int = MAX_SENTENCE) -> str:
    return str(storable(text[-longest:]))


def _rate(bytes_per_second: float) -> float:
    return max(0.0, min(bytes_per_second, MAX_RATE)) if math.isfinite(bytes_per_second) else 0.0
