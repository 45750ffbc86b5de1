"""What an attempt goes through between its wait in the queue and its first step, as phases with a beginning and an end.

From them come the spans of its trace and the waterfall on its page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from platform_core.spans import Span, Value
from platform_core.trace_context import parent_id, span_id, trace_id

QUEUE, PLACEMENT, ORDER, LAUNCH, PROCESSES, LOAD, FIRST_STEP = (
    "queue", "placement", "order", "launch", "processes", "load", "first_step",
)  # fmt: skip
LABELS = {
    QUEUE: "Wait in queue",
    PLACEMENT: "Placement",
    ORDER: "Start order",
    "code": "Fetch code",
    "dataset": "Fetch dataset",
    "checkpoint": "Fetch checkpoint",
    "model": "Fetch model",
    "image": "Fetch image",
    LAUNCH: "Launch",
    PROCESSES: "Processes and imports",
    LOAD: "Load checkpoint",
    FIRST_STEP: "First step",
}
SPAN_NAMES = {
    QUEUE: "wait in queue", PLACEMENT: "placement", ORDER: "start order", "code": "fetch code",
    "dataset": "fetch dataset", "checkpoint": "fetch checkpoint", "model": "fetch model", "image": "fetch image",
    LAUNCH: "launch",
    PROCESSES: "start processes", LOAD: "load checkpoint", FIRST_STEP: "first step",
}  # fmt: skip
_SERVICES = {
    QUEUE: "scheduler", PLACEMENT: "scheduler", ORDER: "gateway", PROCESSES: "rank", LOAD: "rank", FIRST_STEP: "rank",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Phase:
    name: str
    began_ms: int
    ended_ms: int | None  # None: it is under way
    node: str = ""  # of what each node does by itself

    @property
    def label(self) -> str:
        return LABELS.get(self.name, self.name)


@dataclass(frozen=True, slots=True)
class Start:
    """What is known of the start of one attempt."""

    job_id: str
    attempt_id: str
    number: int
    traceparent: str  # of the submission
    waiting_ms: int  # since when it waited
    placed_ms: int
    nodes: Mapping[str, Sequence[Phase]]  # by node what its agent has reported, in the order of the ranks
    script_ms: int | None = None  # rank 0 began its run
    loaded_ms: int | None = None
    first_step_ms: int | None = None
    ended_ms: int | None = None


def phases(start: Start) -> tuple[Phase, ...]:
    """In the order in which they began. The last one is open while the attempt is on its way."""
    found = [Phase(QUEUE, start.waiting_ms, start.placed_ms)]
    launched: list[int] = []
    for node, reported in start.nodes.items():
        found.append(Phase(ORDER, start.placed_ms, reported[0].began_ms if reported else None, node))
        found += reported
        launched += [phase.ended_ms for phase in reported if phase.name == LAUNCH and phase.ended_ms]
    if launched and len(launched) == len(start.nodes):
        found += _of_the_script(start, max(launched))
    over = start.ended_ms if start.first_step_ms is None else start.first_step_ms
    closed = [_closed(phase, over) for phase in found]
    return tuple(sorted(closed, key=lambda phase: phase.began_ms))


def _of_the_script(start: Start, launched_ms: int) -> list[Phase]:
    """The first step follows the load where there is one, and else the begin of the run."""
    found = [Phase(PROCESSES, launched_ms, start.script_ms or start.first_step_ms)]
    if start.script_ms is None:
        return found
    loaded = start.loaded_ms is not None and start.loaded_ms >= start.script_ms
    if loaded:
        found.append(Phase(LOAD, start.script_ms, start.loaded_ms))
    began_ms = start.loaded_ms if loaded and start.loaded_ms is not None else start.script_ms
    return [*found, Phase(FIRST_STEP, began_ms, start.first_step_ms)]


def _closed(phase: Phase, over_ms: int | None) -> Phase:
    ended_ms = over_ms if phase.ended_ms is None else phase.ended_ms
    ended_ms = None if ended_ms is None else max(phase.began_ms, ended_ms)  # two machines' clocks differ
    return Phase(phase.name, phase.began_ms, ended_ms, phase.node)


@dataclass(frozen=True, slots=True)
class Step:
    """One phase over all nodes: from the first that began it to the last that ended it."""

    name: str
    label: str
    began_ms: int
    ended_ms: int | None
    nodes: int = 0
    slowest: str = ""  # the node that ended it last, or has not yet


def waterfall(start: Start) -> tuple[Step, ...]:
    """The phases by name, in the order in which they began."""
    by_name: dict[str, list[Phase]] = {}
    for phase in phases(start):
        by_name.setdefault(phase.name, []).append(phase)
    steps = [_step(name, alike) for name, alike in by_name.items()]
    return tuple(sorted(steps, key=lambda step: step.began_ms))


def _step(name: str, alike: Sequence[Phase]) -> Step:
    last = max(alike, key=lambda phase: float("inf") if phase.ended_ms is None else phase.ended_ms)
    nodes = sum(1 for phase in alike if phase.node)
    return Step(name, last.label, min(phase.began_ms for phase in alike), last.ended_ms, nodes, last.node)


def attempt_span(attempt_id: str) -> str:
    return span_id("attempt", attempt_id)


def spans(start: Start, names: Sequence[str] = ()) -> list[Span]:
    """Those that are over, of these names or all; none for a job that was submitted without a trace."""
    trace = trace_id(start.traceparent)
    if trace is None:
        return []
    return [
        Span(
            trace=trace,
            id=span_id(start.attempt_id, phase.name, phase.node),
            parent=attempt_span(start.attempt_id),
            name=SPAN_NAMES.get(phase.name, phase.name),
            service=f"trainmaster-{_SERVICES.get(phase.name, 'agent')}",
            began_ms=phase.began_ms,
            ended_ms=phase.ended_ms,
            attributes=_attributes(start, phase.node),
        )
        for phase in phases(start)
        if phase.ended_ms is not None and (not names or phase.name in names)
    ]


def whole(start: Start) -> Span | None:
    """From the wait to the first step, or to the end of an attempt that made none; None while it is on its way."""
    trace, over = trace_id(start.traceparent), start.first_step_ms or start.ended_ms
    if trace is None or over is None:
        return None
    failed = "" if start.first_step_ms is not None else "the attempt ended before its first step"
    return Span(
        trace, attempt_span(start.attempt_id), parent_id(start.traceparent), f"start attempt {start.number}",
        "trainmaster-scheduler", start.waiting_ms, over, attributes=_attributes(start, ""), error=failed,
    )  # fmt: skip


def _attributes(start: Start, node: str) -> dict[str, Value]:
    named: dict[str, Value] = {
        "trainmaster.job": start.job_id, "trainmaster.attempt": start.attempt_id,
        "trainmaster.attempt_number": start.number,
    }  # fmt: skip
    return {**named, "trainmaster.node": node} if node else named
