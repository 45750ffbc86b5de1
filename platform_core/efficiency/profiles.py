"""A recorded stretch of a loop, summed up: how long the device computed, communicated, copied and idled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

Interval = tuple[float, float]
MOST_LINES = 40


class Kind(StrEnum):
    COMPUTE = "compute"
    COMMUNICATION = "communication"
    COPY = "copy"
    WAIT = "wait"  # of the script for its device
    DATA = "data"  # of the script for the next batch


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took time, in microseconds."""

    name: str
    kind: Kind
    start: float
    end: float
    own: float | None = None  # without the spans inside it; None: has none


@dataclass(frozen=True, slots=True)
class Line:
    """All spans of one name."""

    name: str
    kind: Kind
    calls: int
    us: float


@dataclass(frozen=True, slots=True)
class Summary:
    """Shares of the wall time. Communication and copies count where no computation hides them."""

    steps: int
    wall_us: float
    compute: float
    communication: float
    copies: float
    idle: float
    waiting: float
    data: float
    span_us: float  # mean of a computation
    lines: tuple[Line, ...]  # what took longest first


def summary(spans: Sequence[Span], begin: float, end: float, steps: int) -> Summary:
    wall = max(end - begin, 1e-9)

    def busy(*kinds: Kind) -> list[Interval]:
        cut = ((max(begin, span.start), min(end, span.end)) for span in spans if span.kind in kinds)
        return union(interval for interval in cut if interval[1] > interval[0])

    compute = busy(Kind.COMPUTE)
    talking = busy(Kind.COMPUTE, Kind.COMMUNICATION)
    all_work = busy(Kind.COMPUTE, Kind.COMMUNICATION, Kind.COPY)
    computing = [span for span in spans if span.kind is Kind.COMPUTE]
    return Summary(
        steps=steps,
        wall_us=wall,
        compute=length(compute) / wall,
        communication=(length(talking) - length(compute)) / wall,
        copies=(length(all_work) - length(talking)) / wall,
        idle=1 - length(all_work) / wall,
        waiting=length(busy(Kind.WAIT)) / wall,
        data=length(busy(Kind.DATA)) / wall,
        span_us=sum(span.end - span.start for span in computing) / len(computing) if computing else 0.0,
        lines=_lines(spans),
    )


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Without overlaps, in order."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def length(intervals: Iterable[Interval]) -> float:
    return sum(end - start for start, end in intervals)


def kind_of_kernel(name: str) -> Kind:
    """By the name that CUPTI or torch gives it."""
    lowered = name.lower()
    if "nccl" in lowered or lowered.startswith(("gloo:", "c10d::")):
        return Kind.COMMUNICATION
    return Kind.COPY if lowered.startswith(("memcpy", "memset")) else Kind.COMPUTE


def _lines(spans: Iterable[Span]) -> tuple[Line, ...]:
    sums: dict[tuple[str, Kind], tuple[int, float]] = {}
    for span in spans:
        calls, us = sums.get((span.name, span.kind), (0, 0.0))
        sums[span.name, span.kind] = (
            calls + 1,
            us + (span.end - span.start if span.own is None else span.own),
        )
    lines = [Line(name, kind, calls, us) for (name, kind), (calls, us) in sums.items()]
    return tuple(sorted(lines, key=lambda line: (-line.us, line.name, line.kind))[:MOST_LINES])
