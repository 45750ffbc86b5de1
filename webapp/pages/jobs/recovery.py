"""What the page of a job shows of its recoveries."""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.recovery.phases import NAMES
from platform_core.units import format_duration_ms
from webapp.jobs import recoveries
from webapp.jobs.models import Job
from webapp.jobs.recoveries import Measured
from webapp.pages.figures import Figure

LABELS = {
    "detect": "Detect",
    "stop": "Stop",
    "place": "Place",
    "fetch": "Fetch",
    "load": "Load",
    "first_step": "First step",
}
assert tuple(LABELS) == NAMES


@dataclass(frozen=True, slots=True)
class Segment:
    """One phase in the bar of a recovery; `x` and `width` in percent of the longest one."""

    name: str
    label: str
    x: float
    width: float
    ms: int


@dataclass(frozen=True, slots=True)
class Row:
    attempt: int
    reason: str
    at_ms: int
    total_ms: int
    segments: tuple[Segment, ...]
    steps_lost: int
    outcome: str  # recovered, failed again, or the phase that is under way
    sentence: str  # all phases in words


@dataclass(frozen=True, slots=True)
class RecoveryPanel:
    figures: tuple[Figure, ...]
    rows: tuple[Row, ...]
    phases: tuple[tuple[str, str], ...] = tuple(LABELS.items())


def of_job(job: Job, now_ms: int) -> RecoveryPanel:
    measured = recoveries.of_job(job, now_ms)
    sums, ratio = measured.summary, measured.effective.ratio
    longest = max([row.phases.total_ms for row in measured.recoveries], default=0)
    figures = (
        Figure(
            "Effective training time",
            "–" if ratio is None else f"{ratio:.1%}",
            f"{format_duration_ms(measured.effective.productive_ms)} of "
            f"{format_duration_ms(measured.effective.wall_ms)}",
        ),
        Figure(
            "Mean time to recovery",
            "–" if sums.mean_ms is None else format_duration_ms(sums.mean_ms),
            "" if sums.longest_ms is None else f"longest {format_duration_ms(sums.longest_ms)}",
        ),
        Figure(
            "Recovered",
            "–" if sums.success is None else f"{sums.success:.0%}",
            f"{sums.succeeded} of {sums.count}" if sums.count else "",
        ),
        Figure("Steps lost", f"{sums.steps_lost:,}", "done again after a restart"),
    )
    return RecoveryPanel(figures, tuple(_row(row, longest) for row in measured.recoveries))


def _row(row: Measured, longest: int) -> Row:
    segments, x = [], 0.0
    for name, label in LABELS.items():
        ms = getattr(row.phases, name)
        if not ms:
            continue
        width = 100 * ms / longest
        segments.append(Segment(name, label, round(x, 3), round(width, 3), ms))
        x += width
    sentence = ", ".join(f"{segment.label} {format_duration_ms(segment.ms)}" for segment in segments)
    return Row(
        row.attempt, row.reason.replace("_", " "), row.began_ms, row.phases.total_ms, tuple(segments),
        row.steps_lost, _outcome(row), sentence,
    )  # fmt: skip


def _outcome(row: Measured) -> str:
    if row.phases.complete:
        return "recovered"
    if row.over:
        return "failed again"
    return next(LABELS[name].lower() for name in NAMES if getattr(row.phases, name) is None)
