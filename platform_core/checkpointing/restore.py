"""From which checkpoint to go on."""

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
    """All that it had is damaged. Nobody begins days of work again unasked, so this is the end of the job."""

    reason: str


def choose(checkpoints: Iterable[Kept]) -> Chosen | FromTheStart | NoneWhole:
    """The newest good one; the reason counts the damaged ones that were passed over."""
    damaged = 0
    for one in newest_first(checkpoints):
        if one.good:
            passed = f", after {damaged} newer damaged one{'s' if damaged > 1 else ''}" if damaged else ""
            told = f"the newest good checkpoint is {one.id} at step {one.step}{passed}"
            return Chosen(one.id, one.attempt, one.step, told)
        damaged += 1
    if damaged:
        return NoneWhole(f"all checkpoints are damaged: {damaged} of {damaged}")
    return FromTheStart("there is no checkpoint yet")
