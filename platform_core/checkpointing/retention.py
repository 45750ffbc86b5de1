"""Retention of checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from platform_core.jobs.retention_policy import Direction, RetentionPolicy
from platform_core.units import DAY_MS, HOUR_MS

NO_MORE = RetentionPolicy()


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint in the store. `pinned`: somebody keeps it. `in_use`: something needs it, such as a model version."""

    id: str
    attempt: int
    step: int
    pinned: bool = False
    good: bool = True  # its bytes match its manifest
    saved_ms: int = 0
    metrics: tuple[tuple[str, float], ...] = ()
    in_use: bool = False


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a checkpoint stays, or goes. `stays` is not empty for those that stay."""

    id: str
    stays: tuple[str, ...]
    goes: str = ""


def newest_first(kept: Iterable[Kept]) -> list[Kept]:
    """By attempt first: after a resume from an older one, a lower step can be the newer checkpoint.

    Not by time, for each node has a clock of its own.
    """
    return sorted(kept, key=lambda one: (one.attempt, one.step, one.id), reverse=True)


def to_delete(
    kept: Iterable[Kept], keep_last: int, policy: RetentionPolicy = NO_MORE, now_ms: int = 0
) -> tuple[str, ...]:
    """The ids that may be deleted, oldest first."""
    return tuple(
        reason.id for reason in reversed(reasons(kept, keep_last, policy, now_ms)) if not reason.stays
    )


def reasons(
    kept: Iterable[Kept], keep_last: int, policy: RetentionPolicy = NO_MORE, now_ms: int = 0
) -> list[Reason]:
    """What becomes of each, the newest first.

    The newest `keep_last` good ones stay, and at least one whatever the number says; those that are pinned or in use
    stay always. Beside them stay the best and one of each stretch of hours, until they are too old. Damaged ones go,
    for they would only take the place of a good one.
    """
    ordered = newest_first(kept)
    good = [one for one in ordered if one.good]
    last = {one.id for one in good[: max(1, keep_last)]}
    best = {one.id for one in _best(good, policy)}
    hourly = {one.id for one in _one_of_each_stretch(good, policy)}
    told = []
    for one in ordered:
        old = bool(policy.max_age_ms) and now_ms - one.saved_ms > policy.max_age_ms
        stays = ["pinned"] if one.pinned else []
        stays += ["in use"] if one.in_use else []
        stays += ["last"] if one.id in last else []
        stays += ["best"] if one.id in best and not old else []
        stays += ["hourly"] if one.id in hourly and not old else []
        told.append(Reason(one.id, tuple(stays), "" if stays else _goes(one, old)))
    return told


def look_again_ms(
    told: Iterable[Reason], saved_ms: Mapping[str, int], policy: RetentionPolicy, now_ms: int
) -> int | None:
    """When one of these may go though nothing was saved, damaged or unpinned until then. None: none of them.

    What something else needs is looked at again a day later, for nobody says when it needs it no more.
    """
    times = [_stays_until(reason, saved_ms[reason.id], policy, now_ms) for reason in told]
    return min((time for time in times if time is not None), default=None)


def _stays_until(reason: Reason, saved_ms: int, policy: RetentionPolicy, now_ms: int) -> int | None:
    if "last" in reason.stays or "pinned" in reason.stays:
        return None
    ages = {"best", "hourly"} & set(reason.stays)
    if ages and not policy.max_age_ms:
        return None
    too_old = [saved_ms + policy.max_age_ms + 1] if ages else []
    released = [now_ms + DAY_MS] if "in use" in reason.stays else []
    return max([*too_old, *released], default=now_ms)


def _goes(one: Kept, old: bool) -> str:
    if not one.good:
        return "damaged"
    return "older than the policy keeps" if old else "not among those that the policy keeps"


def _best(good: Sequence[Kept], policy: RetentionPolicy) -> list[Kept]:
    """Of equal ones the newer. Those without the metric are never the best."""
    if not policy.best or not policy.metric:
        return []
    sign = -1 if policy.direction is Direction.HIGHEST else 1
    measured = [(sign * value, one) for one in good for name, value in one.metrics if name == policy.metric]
    return [one for _, one in sorted(measured, key=lambda pair: pair[0])[: policy.best]]


def _one_of_each_stretch(good: Sequence[Kept], policy: RetentionPolicy) -> list[Kept]:
    """The first of each stretch of so many hours: it stays the same however many follow."""
    first: dict[int, Kept] = {}
    if policy.every_hours:
        for one in good:  # newest first, so that an older one replaces it
            first[one.saved_ms // (policy.every_hours * HOUR_MS)] = one
    return list(first.values())
