"""The checkpoint from which a job resumes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from platform_core.checkpointing.retention import Kept, newest_first


@dataclass(frozen=True, slots=True)
class Chosen:
    id: str
    attempt: int
    step: int
    reason: str


@dataclass(frozen=True, slots=True)
class FromTheStart:
    reason: str


@dataclass(frozen=True, slots=True)
class NoneWhole:
    """All checkpoints are damaged. The job fails, rather than repeat days of work unasked."""

    reason: str


def choose(checkpoints: Iterable[Kept]) -> Chosen | FromTheStart | NoneWhole:
    """The newest good one; the reason counts the damaged ones that were passed over."""
    damaged = 0
    for checkpoint in newest_first(checkpoints):
        if checkpoint.good:
            passed = f", after {damaged} newer damaged one{'s' if damaged > 1 else ''}" if damaged else ""
            reason = f"the newest good checkpoint is {checkpoint.id} at step {checkpoint.step}{passed}"
            return Chosen(checkpoint.id, checkpoint.attempt, checkpoint.step, reason)
        damaged += 1
    if damaged:
        return NoneWhole(f"all checkpoints are damaged: {damaged} of {damaged}")
    return FromTheStart("there is no checkpoint yet")
