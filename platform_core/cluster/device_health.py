"""Device health: what the readings of GPUs, disks and clocks mean, and what follows. One table of rules.

A fault is active once its reading has stayed at or above the threshold for `for_ms`, and over once it has stayed below
for `clear_ms`, so that a reading that swings about the threshold takes nothing in and out of service. What a rule takes
out of service for good comes back by an operator alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from platform_core.units import HOUR_MS, MINUTE_MS, SECOND_MS

FAILED_JOBS, CORRUPTION, SUSPICION = (
    "failed_jobs",
    "silent_corruption",
    "corruption_suspected",
)  # told by jobs
WHOLE_NODE = -1  # in place of a slot's index


class Severity(StrEnum):
    NOTICE = "notice"
    WARNING = "warning"
    CRITICAL = "critical"


class Consequence(StrEnum):
    RECORD = "record"  # nothing but the history
    AVOID = "avoid"  # no new jobs until it is over
    TAKE_OUT = "take out"  # out of service until an operator returns it; its jobs save and move


@dataclass(frozen=True, slots=True)
class Rule:
    """`reading` at or above `at_least` for `for_ms`. Of a slot, or with `of_node` of the whole node."""

    code: str
    reading: str
    at_least: float
    for_ms: int
    clear_ms: int
    severity: Severity
    consequence: Consequence
    sentence: str  # `{value}` is the reading
    remedy: str
    of_node: bool = False

    def says(self, value: float) -> str:
        return self.sentence.format(value=f"{value:,.0f}")


_RECORD, _AVOID, _TAKE_OUT = Consequence.RECORD, Consequence.AVOID, Consequence.TAKE_OUT
_NOTICE, _WARNING, _CRITICAL = Severity.NOTICE, Severity.WARNING, Severity.CRITICAL
_RESET = "Drain the node, reset the GPU with `nvidia-smi --gpu-reset` or reboot, run `dcgmi diag -r 3`, then return it."
_REPLACE = "Run `dcgmi diag -r 3`; replace the GPU if it fails, then return the slot."
_REBOOT = "Reboot the node; check power, seating and the PCIe riser if it happens again."
_FATAL_XIDS: Mapping[int, tuple[str, str]] = {
    48: ("an uncorrectable memory error", _RESET),
    62: ("a halted internal microcontroller", _RESET),
    64: ("a row that could not be remapped", _REPLACE),
    74: ("an NVLink error", "Check the NVLink bridge or the switch with `nvidia-smi nvlink -e`, then return the slot."),
    79: ("a GPU that fell off the bus", _REBOOT),
    95: ("an uncontained memory error", _RESET),
    119: ("a GPU system processor that does not answer", _RESET),
    120: ("an error of the GPU system processor", _RESET),
    140: ("an unrecovered memory error", _RESET),
}  # fmt: skip
_MINOR_XIDS: Mapping[int, str] = {
    63: "a remapped row",
    92: "many corrected memory errors",
    94: "a contained memory error, which ended one job",
}


def _xid_rules() -> tuple[Rule, ...]:
    fatal = [
        Rule(
            f"xid_{number}",
            f"xid_{number}",
            1,
            0,
            HOUR_MS,
            _CRITICAL,
            _TAKE_OUT,
            f"XID {number}: {words}",
            remedy,
        )
        for number, (words, remedy) in _FATAL_XIDS.items()
    ]
    minor = [
        Rule(
            f"xid_{number}", f"xid_{number}", 1, 0, HOUR_MS, _NOTICE, _RECORD,
            f"XID {number}, {{value}} times in an hour: {words}", "Watch the GPU; nothing has to be done yet.",
        )
        for number, words in _MINOR_XIDS.items()
    ]  # fmt: skip
    return (*fatal, *minor)


RULES: tuple[Rule, ...] = (
    Rule("gpu_lost", "gpu_lost", 1, 10 * SECOND_MS, 5 * MINUTE_MS, _CRITICAL, _TAKE_OUT,
         "the GPU does not answer: it fell off the bus",
         _REBOOT),
    Rule("ecc_uncorrected", "ecc_uncorrected_hour", 1, 0, HOUR_MS, _CRITICAL, _TAKE_OUT,
         "{value} uncorrected memory errors in an hour", _RESET),
    Rule("ecc_corrected", "ecc_corrected_hour", 1_000, 5 * MINUTE_MS, HOUR_MS, _WARNING, _AVOID,
         "{value} corrected memory errors in an hour", "Reset the GPU when it is idle, so that bad rows are remapped."),
    Rule("ecc_lifetime", "ecc_uncorrected_lifetime", 10, 0, HOUR_MS, _NOTICE, _RECORD,
         "{value} uncorrected memory errors in its lifetime", _REPLACE),
    Rule("row_remap_failed", "row_remap_failed", 1, 0, HOUR_MS, _CRITICAL, _TAKE_OUT,
         "a row of its memory could not be remapped: no spare rows are left", "Replace the GPU."),
    Rule("row_remap_pending", "row_remap_pending", 1, MINUTE_MS, MINUTE_MS, _WARNING, _AVOID,
         "rows of its memory wait to be remapped", "Reset the GPU: the rows are remapped by that."),
    Rule("rows_remapped", "rows_remapped_uncorrectable", 8, 0, HOUR_MS, _NOTICE, _RECORD,
         "{value} rows of its memory were remapped after uncorrectable errors", _REPLACE),
    Rule("throttled_hot", "throttle_thermal", 1, 2 * MINUTE_MS, 10 * MINUTE_MS, _WARNING, _AVOID,
         "it is throttled because it is too hot", "Check fans, filters and the temperature of the inlet air."),
    Rule("throttled_hardware", "throttle_hardware", 1, 2 * MINUTE_MS, 10 * MINUTE_MS, _WARNING, _AVOID,
         "its hardware slows it down, for power or heat", "Check the power supplies, cables and the power limit."),
    Rule("pcie_errors", "pcie_replays_hour", 1_000, 5 * MINUTE_MS, HOUR_MS, _WARNING, _AVOID,
         "{value} PCIe replays in an hour", "Reseat the GPU and its riser; read the link width in `nvidia-smi -q`."),
    Rule("nvlink_errors", "nvlink_errors_hour", 100, 5 * MINUTE_MS, HOUR_MS, _WARNING, _AVOID,
         "{value} NVLink errors in an hour", "Read `nvidia-smi nvlink -e`; reseat or replace the bridge."),
    *_xid_rules(),
    Rule("disk_read_only", "disk_read_only", 1, 0, 10 * MINUTE_MS, _CRITICAL, _TAKE_OUT,
         "the file system of its data folder is read-only", "Read the kernel log, repair the file system, remount it.",
         of_node=True),
    Rule("disk_write", "disk_write_failed", 1, 30 * SECOND_MS, 10 * MINUTE_MS, _CRITICAL, _TAKE_OUT,
         "a file could not be written to its data folder", "Read the kernel log and the disk's SMART report.",
         of_node=True),
    Rule("disk_slow", "disk_write_ms", 10_000, 5 * MINUTE_MS, 10 * MINUTE_MS, _WARNING, _AVOID,
         "a small file takes {value} ms to reach its disk", "Find what fills the disk's queue; check its SMART report.",
         of_node=True),
    Rule("disk_failing", "smart_failing", 1, 0, HOUR_MS, _WARNING, _AVOID,
         "{value} disks say by SMART that they are failing", "Replace the disk.", of_node=True),
    Rule("clock_drift", "clock_offset_ms", 2_000, MINUTE_MS, 10 * MINUTE_MS, _WARNING, _AVOID,
         "its clock is {value} ms away from the platform's", "Start chrony or another NTP client on the node.",
         of_node=True),
    Rule("silent_corruption", CORRUPTION, 1, 0, HOUR_MS, _CRITICAL, _TAKE_OUT,
         "it computed other results than the other nodes of a job",
         "Run `dcgmi diag -r 4` and a memory test, replace what fails, then return it.", of_node=True),
    Rule("corruption_suspected", SUSPICION, 1, 0, HOUR_MS, _WARNING, _AVOID,
         "it or another node of a job computed a wrong result",
         "Run `dcgmi diag -r 4` and a memory test on all suspected nodes, or return it and let the next check decide.",
         of_node=True),
    Rule("failing_jobs", FAILED_JOBS, 3, 0, HOUR_MS, _CRITICAL, _TAKE_OUT,
         "{value} different jobs failed on it within 6 h, by no fault of their own",
         "Read why on the jobs' pages, test the node with a small job, then return it.", of_node=True),
)  # fmt: skip
BY_CODE: Mapping[str, Rule] = {rule.code: rule for rule in RULES}
READINGS = frozenset(rule.reading for rule in RULES)


class Stage(StrEnum):
    WATCHED = "watched"  # the reading is high, not for long enough
    ACTIVE = "active"
    EASING = "easing"  # still active: the reading is low, not for long enough
    RETURNED = "returned"  # an operator returned it while the reading is high; only a higher one counts


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule about one slot, or about the node as WHOLE_NODE, from the first high reading on."""

    code: str
    slot: int
    stage: Stage
    since_ms: int  # in this stage
    began_ms: int  # when it became active; before that when it was first seen
    value: float
    worst: float

    @property
    def rule(self) -> Rule:
        return BY_CODE[self.code]

    @property
    def is_active(self) -> bool:
        return self.stage in (Stage.ACTIVE, Stage.EASING)

    @property
    def keeps_jobs_away(self) -> bool:
        return self.is_active and self.rule.consequence is not Consequence.RECORD

    @property
    def moves_jobs(self) -> bool:
        return self.is_active and self.rule.consequence is Consequence.TAKE_OUT

    @property
    def sentence(self) -> str:
        where = "" if self.slot == WHOLE_NODE else f"slot {self.slot}: "
        return where + self.rule.says(self.worst)


def advance(
    rule: Rule, slot: int, finding: Finding | None, value: float | None, now_ms: int
) -> Finding | None:
    """The finding after a reading; None when there is nothing (any more). No reading changes nothing."""
    if value is None:
        return finding
    high = value >= rule.at_least
    if finding is None:
        if not high:
            return None
        finding = Finding(rule.code, slot, Stage.WATCHED, now_ms, now_ms, value, value)
    waited_ms = now_ms - finding.since_ms
    worst = max(finding.worst, value)
    seen = replace(finding, value=value, worst=worst if high else finding.worst)
    match finding.stage:
        case Stage.WATCHED if not high:
            return None
        case Stage.WATCHED if waited_ms >= rule.for_ms:
            return replace(seen, stage=Stage.ACTIVE, since_ms=now_ms, began_ms=now_ms)
        case Stage.ACTIVE if not high and rule.consequence is not Consequence.TAKE_OUT:
            return replace(seen, stage=Stage.EASING, since_ms=now_ms)
        case Stage.EASING if high:
            return replace(seen, stage=Stage.ACTIVE, since_ms=now_ms)
        case Stage.EASING if waited_ms >= rule.clear_ms:
            return None
        case Stage.RETURNED:
            return _after_return(rule, seen, finding.worst, high, now_ms)
    return seen


def _after_return(rule: Rule, seen: Finding, limit: float, high: bool, now_ms: int) -> Finding | None:
    """`limit`: the highest reading at the return. It is forgotten once the reading was low for a while."""
    if high and seen.value > limit:
        return replace(seen, stage=Stage.WATCHED, since_ms=now_ms, began_ms=now_ms)
    if high:
        return replace(seen, since_ms=now_ms)
    return None if now_ms - seen.since_ms >= rule.clear_ms else seen


def returned(finding: Finding, now_ms: int) -> Finding:
    """An operator returns it to service."""
    return replace(finding, stage=Stage.RETURNED, since_ms=now_ms, worst=max(finding.value, finding.worst))


def judge(
    findings: Sequence[Finding],
    node: Mapping[str, float] | None,
    slots: Mapping[int, Mapping[str, float]],
    now_ms: int,
) -> tuple[Finding, ...]:
    """The findings of a node after its newest readings, in a fixed order; None: it was not heard.

    A reading that is not there is 0 for a device that was read.
    """
    known = {(finding.slot, finding.code): finding for finding in findings}
    places: dict[int, Mapping[str, float]] = dict(slots)
    if node is not None:
        places[WHOLE_NODE] = node
    after = dict(known)
    for slot, readings in places.items():
        for rule in RULES:
            key = (slot, rule.code)
            if rule.of_node is not (slot == WHOLE_NODE) or not (rule.reading in readings or key in known):
                continue
            finding = advance(rule, slot, known.get(key), readings.get(rule.reading, 0.0), now_ms)
            if finding is not None:
                after[key] = finding
            else:
                after.pop(key, None)
    return tuple(after[key] for key in sorted(after))


def is_symptom(readings: Mapping[str, float]) -> bool:
    """Whether any rule's threshold is reached: only such nodes need to be judged."""
    return any(readings.get(rule.reading, 0.0) >= rule.at_least for rule in RULES)


def out_of_service(findings: Sequence[Finding]) -> dict[int, str]:
    """By slot, or WHOLE_NODE, why it takes no jobs; empty where all do."""
    reasons: dict[int, list[str]] = {}
    for finding in findings:
        if finding.keeps_jobs_away:
            reasons.setdefault(finding.slot, []).append(finding.rule.says(finding.worst))
    return {slot: "; ".join(sentences) for slot, sentences in reasons.items()}


def most_suspected(nodes: int) -> int:
    """How many nodes may be out of service for failing jobs at once: more than that is a fault of something else."""
    return max(1, nodes // 10)
