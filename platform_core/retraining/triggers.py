"""Whether a retraining cycle begins now: what is observed of the model in production, against the policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from platform_core.registry.gates import Direction
from platform_core.retraining.policy import RetrainingPolicy
from platform_core.units import DAY_MS, HOUR_MS, format_duration_ms, format_number, plural

WEEK_MS = 7 * DAY_MS


class Trigger(StrEnum):
    DRIFT = "drift"
    AGE = "age"
    DECAY = "decay"
    PERSON = "person"


@dataclass(frozen=True, slots=True)
class Reading:
    """Of the version in production now. `drifted`: features; None: there was no look, or too few samples.

    `decay`: the metric of the policy; None: it was not measured.
    """

    version: str
    created_ms: int
    drifted: Sequence[str] | None = None
    decay: float | None = None


@dataclass(frozen=True, slots=True)
class Watched:
    """Since when each condition has held without a break, for this version; None: it does not hold."""

    version: str = ""
    drift_since_ms: int | None = None
    decay_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class History:
    """What the limits look at. `begun_ms`: the beginnings of cycles, whatever became of them."""

    begun_ms: tuple[int, ...] = ()
    spent_ms: int = 0  # GPU time of their jobs in the last week
    next_ms: int = 0  # GPU time that the next job may need
    new_data: bool = True  # there is a newer version of the dataset of the recipe
    open: bool = False  # a cycle is under way


@dataclass(frozen=True, slots=True)
class Begin:
    trigger: Trigger
    sentence: str


@dataclass(frozen=True, slots=True)
class Hold:
    """`reasons` of the limits; empty where no trigger asks for a cycle. `trigger`: what asks for one."""

    reasons: tuple[str, ...] = ()
    trigger: Trigger | None = None
    sentence: str = ""


def observe(watched: Watched, policy: RetrainingPolicy, reading: Reading, now_ms: int) -> Watched:
    """What is unknown changes nothing; another version begins anew."""
    if watched.version != reading.version:
        watched = Watched(reading.version)
    if not policy.drift:
        watched = replace(watched, drift_since_ms=None)
    elif reading.drifted is not None:
        watched = replace(
            watched, drift_since_ms=_since(watched.drift_since_ms, bool(reading.drifted), now_ms)
        )
    if not policy.decay_metric:
        watched = replace(watched, decay_since_ms=None)
    elif reading.decay is not None:
        worse = policy.is_worse(reading.decay)
        watched = replace(watched, decay_since_ms=_since(watched.decay_since_ms, worse, now_ms))
    return watched


def _since(before: int | None, holds: bool, now_ms: int) -> int | None:
    return (now_ms if before is None else before) if holds else None


def due(
    policy: RetrainingPolicy, watched: Watched, reading: Reading, history: History, now_ms: int
) -> Begin | Hold:
    """The first trigger that asks for a cycle, if the limits allow one."""
    asked = next(_asked(policy, watched, reading, now_ms), None) if policy.enabled else None
    if asked is None:
        return Hold()
    reasons = tuple(limits(policy, history, now_ms))
    return Hold(reasons, asked.trigger, asked.sentence) if reasons else asked


def _asked(policy: RetrainingPolicy, watched: Watched, reading: Reading, now_ms: int) -> Iterator[Begin]:
    drift, decay = (
        _lasted(since, policy, now_ms) for since in (watched.drift_since_ms, watched.decay_since_ms)
    )
    if drift is not None:
        features = " ".join(filter(None, ("features", ", ".join((reading.drifted or ())[:5]))))
        yield Begin(Trigger.DRIFT, f"{features} drifted {drift}")
    if decay is not None:
        value = "" if reading.decay is None else f" is {format_number(reading.decay)}"
        least = "least" if policy.decay_direction is Direction.HIGHER else "most"
        bound = f"it must be at {least} {format_number(policy.decay_bound)}"
        yield Begin(Trigger.DECAY, f"{policy.decay_metric}{value} and {bound}, {decay}")
    age = now_ms - reading.created_ms
    if policy.max_age_ms and age > policy.max_age_ms:
        most = plural(policy.max_age_days, "day")
        yield Begin(
            Trigger.AGE, f"the version in production is {format_duration_ms(age)} old; {most} are allowed"
        )


def _lasted(since_ms: int | None, policy: RetrainingPolicy, now_ms: int) -> str | None:
    if since_ms is None or now_ms - since_ms < policy.lasts_ms:
        return None
    return f"for {format_duration_ms(now_ms - since_ms)}" if now_ms > since_ms else "just now"


def limits(policy: RetrainingPolicy, history: History, now_ms: int) -> Iterator[str]:
    """Why no cycle may begin now, also none that a person asks for: each a sentence with its numbers."""
    if history.open:
        yield "a cycle is under way"
    last = max(history.begun_ms, default=None)
    wait = 0 if last is None else last + policy.min_interval_hours * HOUR_MS - now_ms
    if wait > 0:
        interval = f"{policy.min_interval_hours} h must be between two beginnings"
        yield f"the last cycle began {format_duration_ms(max(0, now_ms - (last or 0)))} ago; {interval}"
    recent = sum(begun > now_ms - WEEK_MS for begun in history.begun_ms)
    if recent >= policy.max_cycles_a_week:
        yield f"{plural(recent, 'cycle')} began in the last 7 days; at most {policy.max_cycles_a_week} may"
    if history.spent_ms + history.next_ms > policy.gpu_hours_a_week:
        spent, wanted, most = (
            format_number(part / HOUR_MS)
            for part in (history.spent_ms, history.next_ms, policy.gpu_hours_a_week)
        )
        needs = f"the next job may need {wanted}; the budget is {most}"
        yield f"{spent} GPU-hours were spent in the last 7 days and {needs}"
    if policy.needs_new_data and not history.new_data:
        yield "there is no newer version of its dataset"
