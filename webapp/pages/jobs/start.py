"""The waterfall on the page of a job: where the time between submission and first step went."""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.jobs.start_phases import Start, Step, waterfall
from platform_core.trace_context import trace_id
from platform_core.units import format_duration_ms
from webapp.jobs import traces
from webapp.jobs.models import Job
from webapp.nodes import queries as nodes

# By the first one in it, the colour that a recovery has for the same.
_TONES = {
    "queue": "queue", "order": "stop", "launch": "place", "processes": "place", "load": "load",
    "first_step": "first_step",
}  # fmt: skip
_LEAST_WIDTH = 0.4  # percent: a phase of a millisecond is still seen


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    note: str  # the slowest node, where there are several
    tone: str
    x: float  # and width in percent of the whole
    width: float
    ms: int
    open: bool


@dataclass(frozen=True, slots=True)
class StartPanel:
    attempt: int
    total_ms: int
    open: bool
    trace: str
    bars: tuple[Bar, ...]
    sentence: str


def of_job(job: Job, now_ms: int) -> StartPanel | None:
    """Of the newest attempt; None for a job that was never placed."""
    starts = traces.of_job(job.id)
    return _panel(starts[-1], now_ms) if starts else None


def _panel(start: Start, now_ms: int) -> StartPanel:
    steps = waterfall(start)
    began_ms = steps[0].began_ms
    is_open = any(step.ended_ms is None for step in steps)
    ended_ms = max(now_ms if step.ended_ms is None else step.ended_ms for step in steps)
    whole_ms = max(1, ended_ms - began_ms)
    names = nodes.hostnames({step.slowest for step in steps if step.slowest})
    bars = tuple(
        _bar(step, began_ms, whole_ms, ended_ms, names.get(step.slowest, step.slowest)) for step in steps
    )
    longest = max(bars, key=lambda bar: bar.ms)
    sentence = f"{longest.label} took {format_duration_ms(longest.ms)} of {format_duration_ms(whole_ms)}."
    return StartPanel(start.number, whole_ms, is_open, trace_id(start.traceparent) or "", bars, sentence)


def _bar(step: Step, began_ms: int, whole_ms: int, now_ms: int, slowest: str) -> Bar:
    ended_ms = now_ms if step.ended_ms is None else step.ended_ms
    width = max(_LEAST_WIDTH, 100 * (ended_ms - step.began_ms) / whole_ms)
    x = min(100 - width, 100 * (step.began_ms - began_ms) / whole_ms)
    note = f"slowest of {step.nodes} nodes: {slowest}" if step.nodes > 1 else slowest
    return Bar(
        step.label, note, _TONES.get(step.name, "fetch"), round(x, 3), round(width, 3), ended_ms - step.began_ms,
        step.ended_ms is None,
    )  # fmt: skip
