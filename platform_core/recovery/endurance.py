"""A long run under failures, moment by moment: which part of its time is productive with which checkpoint interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from platform_core.checkpointing.interval import advise


@dataclass(frozen=True, slots=True)
class Conditions:
    """What saving and recovering cost. A checkpoint exists once it is written."""

    blocking_ms: int  # training stands still for each save
    write_ms: int  # from the begin of a save until it exists
    recovery_ms: int  # from a failure until the first step of the next attempt


@dataclass(frozen=True, slots=True)
class Endured:
    wall_ms: int
    productive_ms: int  # of work that was kept
    saving_ms: int  # training stood still
    lost_ms: int  # work that had to be done again
    recovering_ms: int
    failures: int
    saves: int

    @property
    def ettr(self) -> float:
        return self.productive_ms / self.wall_ms


Interval = Callable[[int, int], int]  # (elapsed ms, failures so far) → ms of work between two saves


def fixed(interval_ms: int) -> Interval:
    return lambda elapsed_ms, failures: interval_ms


def advised(conditions: Conditions, expected_ms: int, weight: int = 3) -> Interval:
    """The advised interval from the failures so far; `expected_ms` between failures counts as `weight` of them.

    Never shorter than the time of a write: the next save would wait for the last one.
    """

    def interval_ms(elapsed_ms: int, failures: int) -> int:
        mtbf_ms = max(1, (elapsed_ms + weight * expected_ms) // (failures + weight))
        cost_ms = max(1, conditions.blocking_ms)
        return max(conditions.write_ms, advise(cost_ms, mtbf_ms, 1, conditions.recovery_ms).interval_ms)

    return interval_ms


def endure(failures_ms: Iterable[int], wall_ms: int, conditions: Conditions, interval: Interval) -> Endured:
    """Runs until `wall_ms`. `failures_ms`: moments in order; one during a recovery begins it anew."""
    now, productive, saving, recovering, lost, failures, saves = 0, 0, 0, 0, 0, 0, 0
    moments = iter(failures_ms)
    failure = next(moments, wall_ms)
    pending, pending_until = 0, 0  # work of a save that is being written, and when it exists
    unsaved = 0
    while now < wall_ms:
        end = min(now + interval(now, failures), failure, wall_ms)
        unsaved += end - now
        now = end
        if now < min(failure, wall_ms):
            blocked_until = min(now + conditions.blocking_ms, failure, wall_ms)
            saving += blocked_until - now
            pending, pending_until = unsaved, now + conditions.write_ms
            now = blocked_until
            saves += 1
        next_save = now + interval(now, failures)
        if pending and pending_until <= min(failure, next_save, wall_ms):
            productive, unsaved, pending = productive + pending, unsaved - pending, 0
        if failure <= now < wall_ms:
            lost, unsaved, pending = lost + unsaved, 0, 0
            while failure <= now:
                failures += 1
                recovered = min(failure + conditions.recovery_ms, wall_ms)
                recovering += max(0, recovered - now)
                now = max(now, recovered)
                failure = next(moments, wall_ms)
                if failure >= wall_ms:
                    break
    return Endured(wall_ms, productive + unsaved, saving, lost, recovering, failures, saves)
