"""The time from submission to the first step: which jobs are within a limit, and when that is decided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from platform_core.service_levels.budget import Counts


@dataclass(frozen=True, slots=True)
class Start:
    """What is known of a job. None: it has not come to that."""

    gpus: int
    submitted_ms: int
    placed_ms: int | None = None  # it first had its slots
    first_step_ms: int | None = None
    finished_ms: int | None = None

    @property
    def took_ms(self) -> int | None:
        return None if self.first_step_ms is None else max(0, self.first_step_ms - self.submitted_ms)


@dataclass(frozen=True, slots=True)
class Judgement:
    at_ms: int
    good: bool


def judge(start: Start, limit_ms: int) -> Judgement | None:
    """A job counts once: at its first step, or when the limit has passed without one.

    None for a job of which nobody can tell: it ended before its limit, or it started in time and reports no steps.
    """
    due_ms = start.submitted_ms + limit_ms
    if start.took_ms is not None and start.took_ms <= limit_ms:
        return Judgement(start.submitted_ms + start.took_ms, True)
    if start.first_step_ms is not None:
        return Judgement(due_ms, False)
    if start.finished_ms is not None and start.finished_ms <= due_ms:
        return None
    if start.placed_ms is None or start.placed_ms > due_ms:
        return Judgement(due_ms, False)
    return None


def counts(starts: Iterable[Start], limit_ms: int, from_ms: int, to_ms: int) -> Counts:
    """Of the jobs that are decided in the period."""
    judgements = [judge(start, limit_ms) for start in starts]
    decided = [each for each in judgements if each is not None and from_ms <= each.at_ms < to_ms]
    return Counts(sum(each.good for each in decided), len(decided))
