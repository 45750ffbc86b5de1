"""Admission of jobs to the queue."""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.quotas.limits import Limits, Usage
from platform_core.units import slot_noun


@dataclass(frozen=True, slots=True)
class Request:
    team: str
    gpu_type: str
    gpus: int


@dataclass(frozen=True, slots=True)
class Admitted:
    waits: bool  # for the team's quota, even on an idle cluster
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    code: str  # of the error catalogue
    numbers: tuple[tuple[str, int | str], ...]
    sentence: str


def admit(request: Request, usage: Usage, limits: Limits | None) -> Admitted | Refused:
    """Admit or refuse a job. `limits` is None when the team has no quota for this GPU type."""
    if limits is None:
        missing = f"team {request.team} has no quota for {request.gpu_type}; an admin can give it one"
        return _refused(request, usage, request.gpus, 0, missing)
    maximum = limits.maximum
    if request.gpus > maximum:
        return _refused(
            request, usage, request.gpus, maximum, _exceeded(request.gpus, maximum, request.gpu_type)
        )
    total = usage.total + request.gpus
    if total > maximum and not limits.queue_beyond:
        detail = f"{usage.held} in use, {usage.queued} pending, {request.gpus} more requested"
        exceeded = f"{_exceeded(total, maximum, request.gpu_type)} ({detail})"
        return _refused(request, usage, total, maximum, exceeded)
    share = f"{total}/{maximum} {slot_noun(request.gpu_type)} of {request.gpu_type}"
    if total > maximum:
        reason = f"waits for the team's quota: {share}"
    elif total > limits.guaranteed:
        borrowed = total - max(limits.guaranteed, usage.total)
        reason = f"within quota: {share}, {borrowed} of them borrowed"
    else:
        reason = f"within quota: {share}"
    return Admitted(total > maximum, reason)


def _exceeded(wanted: int, maximum: int, gpu_type: str) -> str:
    return f"would exceed quota: {wanted}/{maximum} {slot_noun(gpu_type)} of {gpu_type}"


def _refused(request: Request, usage: Usage, wanted: int, maximum: int, sentence: str) -> Refused:
    numbers: tuple[tuple[str, int | str], ...] = (
        ("team", request.team),
        ("gpu_type", request.gpu_type),
        ("asked", request.gpus),
        ("held", usage.held),
        ("queued", usage.queued),
        ("wanted", wanted),
        ("maximum", maximum),
    )
    return Refused("quota_exceeded", numbers, sentence)
