"""Whether the ranks of a job hang: no sign of life for longer than the job's own steps, saves and evaluations take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median

from platform_core.units import MINUTE_MS, format_duration_ms


class OnHang(StrEnum):
    """What follows when a job hangs."""

    RESTART = "restart"
    HOLD = "hold"


DONE, STEP = "done", "step"  # what a rank does; others are "saving", "loading", "evaluating"
LEAST_STEPS = 3  # before so many steps nobody knows how long one takes: imports, compilation
KEPT_STEPS = 64
TIMES_THE_STEP, TIMES_THE_SPREAD, TIMES_THE_PAUSE = 10, 10, 2
DEFAULT_FLOOR_MS = 5 * MINUTE_MS
PAUSE_FACTOR = 4  # a save or an evaluation that has begun may take so many times as long
START_FACTOR = (
    6  # so may what comes before the first steps are over: rendezvous, first collective, compilation
)


@dataclass(frozen=True, slots=True)
class Progress:
    """What a rank last said of itself."""

    rank: int
    step: int
    at_ms: int  # by the clock of the script
    doing: str = STEP
    made: int = 0  # steps since its start; 0: it does not say


@dataclass(frozen=True, slots=True)
class Pace:
    """A rank since its start."""

    progress: Progress
    seen_ms: int  # when it last said something new, by the clock of the watcher
    steps: int = 0  # that it made, at least as many as it said so
    step_times_ms: tuple[int, ...] = ()  # of the last ones
    longest_pause_ms: int = 0  # between two signs of life, after the first steps


Watch = tuple[Pace, ...]  # by rank


@dataclass(frozen=True, slots=True)
class Hang:
    since_ms: int  # by the clock of the watcher
    limit_ms: int
    step: int
    ranks: tuple[int, ...]

    def sentence(self, now_ms: int) -> str:
        silence, limit = format_duration_ms(now_ms - self.since_ms), format_duration_ms(self.limit_ms)
        return f"no progress for {silence} after step {self.step}, the limit by its own steps is {limit}"


def observe(watch: Watch, progress: Iterable[Progress], now_ms: int) -> Watch:
    """The watch after a look at what the ranks say. What says nothing new changes nothing."""
    paces = {pace.progress.rank: pace for pace in watch}
    for newest in progress:
        pace = paces.get(newest.rank)
        if pace is None:
            paces[newest.rank] = Pace(newest, now_ms, newest.made)
        elif newest != pace.progress:
            paces[newest.rank] = _gone_on(pace, newest, now_ms)
    return tuple(paces[rank] for rank in sorted(paces))


def _gone_on(pace: Pace, newest: Progress, now_ms: int) -> Pace:
    pause_ms = now_ms - pace.seen_ms if pace.steps >= LEAST_STEPS else 0
    after = replace(
        pace, progress=newest, seen_ms=now_ms, longest_pause_ms=max(pace.longest_pause_ms, pause_ms)
    )
    steps = newest.step - pace.progress.step
    if steps <= 0:
        return after
    took_ms = max(0, newest.at_ms - pace.progress.at_ms) // steps
    times = (*pace.step_times_ms, took_ms)[-KEPT_STEPS:]
    return replace(after, steps=max(pace.steps + 1, newest.made), step_times_ms=times)


def limit_ms(pace: Pace, floor_ms: int = DEFAULT_FLOOR_MS) -> int:
    """How long this rank may be silent."""
    middle = median(pace.step_times_ms) if pace.step_times_ms else 0
    spread = median(abs(took - middle) for took in pace.step_times_ms) if pace.step_times_ms else 0
    steps = TIMES_THE_STEP * middle + TIMES_THE_SPREAD * spread
    longest = max(floor_ms, round(steps), TIMES_THE_PAUSE * pace.longest_pause_ms)
    if pace.steps < LEAST_STEPS:
        return START_FACTOR * longest
    return longest if pace.progress.doing == STEP else PAUSE_FACTOR * longest


def judge(watch: Watch, now_ms: int, floor_ms: int = DEFAULT_FLOOR_MS) -> Hang | None:
    """A hang: ranks are silent for too long, and nobody has gone on without them. None after the last step, and of
    ranks that have said nothing yet."""
    if any(pace.progress.doing == DONE for pace in watch):
        return None
    silent = {pace.progress.rank: pace for pace in watch if now_ms - pace.seen_ms > limit_ms(pace, floor_ms)}
    awake = [pace.progress.step for pace in watch if pace.progress.rank not in silent]
    stuck = [pace for pace in silent.values() if all(step <= pace.progress.step + 1 for step in awake)]
    if not stuck:
        return None
    first = min(stuck, key=lambda pace: (pace.seen_ms, pace.progress.rank))
    ranks = tuple(pace.progress.rank for pace in stuck)
    return Hang(first.seen_ms, limit_ms(first, floor_ms), first.progress.step, ranks)


def forgive(watch: Watch, now_ms: int) -> Watch:
    """The silent ranks do something after all: they have their whole limit again, and more of it the next time."""
    return tuple(
        replace(pace, seen_ms=now_ms, longest_pause_ms=max(pace.longest_pause_ms, now_ms - pace.seen_ms))
        for pace in watch
    )
