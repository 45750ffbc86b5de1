"""Bounds of all that a node sends, applied where messages become values.

An impossible description is refused with a sentence. In telemetry and observed state, which arrive again and again, an
impossible number or text is clamped or left out, and a row of unknown kind or id is skipped, at no cost to the others.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from platform_core.cluster.device_health import READINGS
from platform_core.errors import TrainmasterError
from platform_core.jobs.stacks import RankStack
from platform_core.json_values import storable
from platform_core.node.description import POWER, NodeDescription, SlotDescription, SlotTelemetry, Telemetry
from platform_core.node.observed import (
    ActivationObserved,
    AttemptObserved,
    DeploymentObserved,
    HangObserved,
    Observed,
    StacksObserved,
    StartPhase,
)
from platform_core.node.profiling import NAMES as PROFILING
from trainmaster_wire.agent.v1 import enrolment_pb2, session_pb2
from trainmaster_wire.conversion import from_wire

T = TypeVar("T")

MAX_SLOTS = 1024
MAX_HELD = 1_000  # datasets and models
MAX_LABELS = 100
MAX_PORT = 2**16 - 1
MAX_INT, MAX_BIGINT = 2**31 - 1, 2**63 - 1  # of a column
MAX_BYTES = 2**50  # of a delivery: what a thousand nodes have fits into a column together
MAX_RATE = 1e15
MAX_SENTENCE = 2_000
MAX_OUTPUT = 64 * 1024
MAX_CHUNKS_BYTES = 2**17  # of a bitmap: a million chunks
MAX_ROWS = 10_000  # of one kind in one message
MAX_PHASES = 20  # of the start of an attempt on one node
MAX_CELSIUS = 1_000.0
MAX_MS = 253_402_300_799_000  # the end of the year 9999: no calendar goes on
KNOWN_READINGS = {*READINGS, *PROFILING, POWER}
# What reading something that a node or a script wrote may raise.
UNREADABLE = (
    TrainmasterError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip
_ID = re.compile(r"[A-Za-z0-9_.-]{1,40}")


def observed(message: session_pb2.Observed) -> Observed:
    for rows in (message.attempts, message.deployments, message.activations):
        del rows[MAX_ROWS:]
    state = from_wire(Observed, message)
    return Observed(
        tuple(_bounded(attempt) for attempt in state.attempts if is_id(attempt.attempt_id)),
        tuple(_bounded(part) for part in state.deployments if is_id(part.deployment_id)),
        tuple(_bounded(part) for part in state.activations if _has_storable_names(part)),
    )


def telemetry(message: session_pb2.Telemetry) -> Telemetry:
    del message.slots[MAX_SLOTS:]
    measured = from_wire(Telemetry, message)
    return replace(_bounded(measured), slots=tuple(map(_bounded, measured.slots)))


def description(message: enrolment_pb2.NodeDescription) -> NodeDescription:
    """Raises request_invalid for the first impossible field."""
    node = from_wire(NodeDescription, message)
    low, high, slots, faults = (
        node.rendezvous_port_low, node.rendezvous_port_high, len(node.slots), len(node.hardware_faults),
    )  # fmt: skip
    _require(slots <= MAX_SLOTS, f"it has {slots:,} slots, and {MAX_SLOTS:,} is the limit")
    _require(len({slot.index for slot in node.slots}) == slots, "two slots have the same index")
    _require(low <= high, f"its rendezvous ports begin at {low} and end at {high}")
    _require(faults <= MAX_SLOTS, f"it has {faults:,} hardware faults, and {MAX_SLOTS:,} is the limit")
    for name in ("hostname", "gpu_type"):
        _require(bool(getattr(node, name).strip()), f"{name} is missing")
    _check(node, "")
    for slot in node.slots:
        _check(slot, " of a slot")
    _check_texts("label", node.labels)
    _check_texts("version", node.versions)
    return replace(node, hardware_faults=tuple(_sentence(fault, 500) for fault in node.hardware_faults))


# The longest text or the greatest number of each field of a description.
LIMITS: dict[type, dict[str, int]] = {
    NodeDescription: {
        "hostname": 120, "rack": 60, "block": 60, "gpu_type": 60, "agent_version": 40, "address": 255,
        "cpus": MAX_INT, "memory_bytes": MAX_BIGINT, "disk_bytes": MAX_BIGINT, "transfer_port": MAX_PORT,
        "rendezvous_port_low": MAX_PORT, "rendezvous_port_high": MAX_PORT, "receive_cap": MAX_BIGINT,
        "send_cap": MAX_BIGINT,
    },
    SlotDescription: {
        "index": MAX_INT, "name": 120, "uuid": 80, "memory_bytes": MAX_BIGINT, "island": MAX_INT,
    },
}  # fmt: skip


def _check(described: NodeDescription | SlotDescription, whose: str) -> None:
    for field, most in LIMITS[type(described)].items():
        value = getattr(described, field)
        if isinstance(value, str):
            _check_text(field + whose, value, most)
        else:
            _require(value <= most, f"{field}{whose} is {value:,}, and {most:,} is the limit")


def _check_text(field: str, text: str, longest: int) -> None:
    shown = repr(text[:40])
    _require(
        len(text) <= longest, f"{field} {shown} has {len(text):,} characters, and {longest} is the limit"
    )
    _require(text.isprintable(), f"{field} {shown} is no line of readable text")


def _check_texts(field: str, texts: Mapping[str, str]) -> None:
    _require(len(texts) <= MAX_LABELS, f"it has {len(texts):,} {field}s, and {MAX_LABELS} is the limit")
    for key, value in texts.items():
        _check_text(field, key, 120)
        _check_text(f"{field} {key[:40]!r}", value, 255)


def _require(holds: bool, why: str) -> None:
    if not holds:
        raise TrainmasterError("request_invalid", what="The description of the node", why=why)


def is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def whole(number: int) -> int:
    """A step, as a column takes it. Raises ValueError."""
    if not 0 <= number <= MAX_BIGINT:
        raise ValueError(f"{number!r:.60} is no step: it must be 0 to {MAX_BIGINT}")
    return number


def count(number: int) -> int:
    """Of nodes or ranks, as a column takes it. Raises ValueError."""
    if number > MAX_INT:
        raise ValueError(f"{number} is more than {MAX_INT:,}")
    return number


def moment(at_ms: int) -> int:
    """A time, as a page can write it. Raises ValueError."""
    if not 0 <= at_ms <= MAX_MS:
        raise ValueError(f"{at_ms!r:.60} is no time in milliseconds since 1970")
    return at_ms


def _has_storable_names(activation: ActivationObserved) -> bool:
    names = (activation.model, activation.version, activation.deployment_id)
    return all(len(name) <= 255 and name == storable(name) for name in names)


def _id(text: str) -> str:
    return text if is_id(text) else ""


def _ids(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(_id, texts[:MAX_SLOTS]))


def _sentence(text: str, longest: int = MAX_SENTENCE) -> str:
    return str(storable(text[-longest:]))


def _output(text: str) -> str:
    return _sentence(text, MAX_OUTPUT)


def _rate(bytes_per_second: float) -> float:
    return max(0.0, min(bytes_per_second, MAX_RATE)) if math.isfinite(bytes_per_second) else 0.0


def _bytes(count: int) -> int:
    return min(count, MAX_BYTES)


def _int(count: int) -> int:
    return min(count, MAX_INT)


def _bigint(count: int) -> int:
    return min(count, MAX_BIGINT)


def _measured(low: float, high: float) -> Callable[[Any], Any]:
    """None for what is absent, not a number or infinite."""
    return lambda number: (
        max(low, min(number, high)) if number is not None and math.isfinite(number) else None
    )


def _stacks(stacks: StacksObserved | None) -> StacksObserved | None:
    if stacks is None:
        return None
    ranks = tuple(map(_bounded, stacks.ranks[:MAX_SLOTS]))
    return replace(stacks, order=_int(stacks.order), at_ms=_moment(stacks.at_ms), ranks=ranks)


def _hang(hang: HangObserved | None) -> HangObserved | None:
    return None if hang is None else _bounded(hang)


def _phases(phases: tuple[StartPhase, ...]) -> tuple[StartPhase, ...]:
    return tuple(map(_bounded, phases[:MAX_PHASES]))


def _readings(readings: Mapping[str, float]) -> Mapping[str, float]:
    return {
        name: max(0.0, min(float(value), float(MAX_BIGINT)))
        for name, value in sorted(readings.items())
        if name in KNOWN_READINGS and math.isfinite(value)
    }


def _name(text: str) -> str:
    return str(storable(text[:200]))


def _moment(at_ms: int) -> int:
    return min(at_ms, MAX_MS)


def _bounded(value: T) -> T:
    changes = {field: rule(getattr(value, field)) for field, rule in RULES[type(value)].items()}
    return replace(value, **changes)  # type: ignore[type-var]


_COUNT = _measured(0, MAX_BIGINT)
# By value and field; ids are checked above, and numbers of 32 bits with a sign fit into every column.
RULES: dict[type, dict[str, Callable[[Any], Any]]] = {
    AttemptObserved: {"reason": _sentence, "stacks": _stacks, "hang": _hang, "phases": _phases},
    StartPhase: {"name": _name, "began_ms": _moment, "ended_ms": _moment},
    HangObserved: {"at_ms": _moment, "silent_ms": _moment, "limit_ms": _moment, "step": _bigint},
    RankStack: {"rank": _int, "function": _name, "location": _name, "state": _name, "step": _bigint},
    DeploymentObserved: {
        "bytes_done": _bytes, "bytes_total": _bytes, "store_bytes": _bytes, "refused_bytes": _bytes,
        "chunks_done": lambda bitmap: bitmap[:MAX_CHUNKS_BYTES], "rate_in": _rate, "rate_out": _rate,
        "source": _id, "error_code": _id, "error": _sentence, "retries": _int, "distrusted": _ids,
        "held": lambda lanes: tuple(map(_bytes, lanes[:MAX_SLOTS])),
    },
    ActivationObserved: {
        "revision": _int, "output": _output, "round": _int, "check_output": _output,
    },
    Telemetry: {
        "disk_free_bytes": _bigint, "memory_used_bytes": _bigint, "readings": _readings,
        "holds": lambda held: tuple(_name(manifest) for manifest in held[:MAX_HELD]),
    },
    SlotTelemetry: {
        "utilisation": _measured(0.0, 1.0), "temperature_celsius": _measured(-MAX_CELSIUS, MAX_CELSIUS),
        "memory_used_bytes": _COUNT, "ecc_corrected": _COUNT, "ecc_uncorrected": _COUNT,
        "ecc_corrected_lifetime": _COUNT, "ecc_uncorrected_lifetime": _COUNT, "readings": _readings,
    },
}  # fmt: skip
