"""The phases of a recovery, from the last step before a failure to the first step after it, and their sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class AttemptTimes:
    """When an attempt reached what. None: it did not, or has not yet."""

    placed_ms: int
    running_ms: int | None = None  # its processes were started on all nodes
    loaded_ms: int | None = None  # the script had its checkpoint, or knew that there is none
    first_step_ms: int | None = None
    progress_ms: int | None = None  # the last step that the script reported
    stopping_ms: int | None = None  # the platform knew that it had failed, or ordered it to stop
    ended_ms: int | None = None  # its last process had ended
    kept_ms: int | None = (
        None  # work until then was kept: its newest checkpoint, or its end if it has succeeded
    )
    failed: bool = True  # False: it was stopped by order, and worked until then


@dataclass(frozen=True, slots=True)
class Phases:
    """Milliseconds of each phase; None: not reached yet."""

    detect: int | None = None  # from the last reported step to the report of the failure
    stop: int | None = None  # until the last process of the attempt had ended
    place: int | None = None  # until the next attempt had its slots, back-off and queue included
    fetch: int | None = None  # until its processes were started, with code, data and checkpoint in place
    load: int | None = None  # until the script had loaded its checkpoint, imports included
    first_step: int | None = None

    @property
    def total_ms(self) -> int:
        return sum(getattr(self, name) or 0 for name in NAMES)

    @property
    def complete(self) -> bool:
        return self.first_step is not None


NAMES = tuple(field.name for field in fields(Phases))


def began_ms(ended: AttemptTimes) -> int:
    """When training stood still: at the last reported step before a failure, at the order to stop otherwise."""
    known = ended.stopping_ms or ended.ended_ms
    reached = [ended.placed_ms, ended.running_ms, ended.loaded_ms, ended.first_step_ms, ended.progress_ms]
    last = max(moment for moment in reached if moment is not None)
    if known is None:
        return last
    return min(last, known) if ended.failed else known


def between(ended: AttemptTimes, following: AttemptTimes | None) -> Phases:
    """The phases between two attempts. A clock that differs between nodes makes no phase negative."""
    moments = [ended.stopping_ms or ended.ended_ms, ended.ended_ms]
    if following is not None:
        moments += [following.placed_ms, following.running_ms, following.loaded_ms, following.first_step_ms]
    reached = max((number for number, moment in enumerate(moments) if moment is not None), default=-1)
    spans, since = [], began_ms(ended)
    for moment in moments[: reached + 1]:  # one that was passed over took no time
        until = max(since, since if moment is None else moment)
        spans.append(until - since)
        since = until
    return Phases(*spans)


@dataclass(frozen=True, slots=True)
class Effective:
    """Effective training time of a run."""

    productive_ms: int  # of steps whose work was kept
    wall_ms: int  # since the first attempt had its slots

    @property
    def ratio(self) -> float | None:
        return self.productive_ms / self.wall_ms if self.wall_ms else None


def effective(attempts: Sequence[AttemptTimes], until_ms: int, from_ms: int = 0) -> Effective:
    """ETTR = productive time / wall time, the time between attempts included, of the part of a run in a period.

    A. Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters", HPCA 2025
    (arXiv 2410.21680). Productive is the time from an attempt's first step to its newest checkpoint; to its end where
    it has succeeded, and until now while it runs.
    """
    if not attempts:
        return Effective(0, 0)
    productive = 0
    for attempt in attempts:
        until = until_ms if attempt.ended_ms is None else attempt.kept_ms
        if attempt.first_step_ms is not None and until is not None:
            productive += max(0, min(until, until_ms) - max(attempt.first_step_ms, from_ms))
    last = min(attempts[-1].ended_ms or until_ms, until_ms)
    wall = max(0, last - max(attempts[0].placed_ms, from_ms))
    return Effective(min(productive, wall), wall)


def weighted(runs: Iterable[tuple[Effective, int]]) -> Effective:
    """Of several runs and their GPUs: GPU time."""
    sums = Effective(0, 0)
    for run, gpus in runs:
        sums = Effective(sums.productive_ms + gpus * run.productive_ms, sums.wall_ms + gpus * run.wall_ms)
    return sums


@dataclass(frozen=True, slots=True)
class Summary:
    """Of several recoveries."""

    count: int  # of those that are over, well or not
    succeeded: int  # the next attempt reached its first step
    mean_ms: int | None  # MTTR: mean time of those that succeeded
    longest_ms: int | None
    steps_lost: int
    mean: Phases  # of those that succeeded

    @property
    def success(self) -> float | None:
        return self.succeeded / self.count if self.count else None


def summary(recoveries: Sequence[tuple[Phases, bool, int]]) -> Summary:
    """Of (phases, whether it is over, steps lost)."""
    complete = [phases for phases, _, _ in recoveries if phases.complete]
    totals = [phases.total_ms for phases in complete]
    over = sum(phases.complete or ended for phases, ended, _ in recoveries)
    return Summary(
        over,
        len(totals),
        _mean(totals),
        max(totals, default=None),
        sum(steps for _, _, steps in recoveries),
        Phases(*(_mean([getattr(phases, name) or 0 for phases in complete]) for name in NAMES)),
    )


def _mean(values: Sequence[int]) -> int | None:
    return round(sum(values) / len(values)) if values else None
