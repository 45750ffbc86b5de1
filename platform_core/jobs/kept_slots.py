"""The slots that a gang keeps between a failure and its restart."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from platform_core.jobs.ends import ENDS, EndReason
from platform_core.jobs.job import Member, MemberPhase
from platform_core.units import MINUTE_MS

KEPT_MS = 2 * MINUTE_MS  # after the end of the attempt; for a longer pause nobody waits
_NODE_AT_FAULT = (EndReason.NODE_LOST, EndReason.GPU_FAILED, EndReason.DISK_FULL, EndReason.LAUNCHER)


@dataclass(frozen=True, slots=True)
class Kept:
    slots: tuple[tuple[str, int], ...] = ()  # (node, slots)
    until_ms: int = 0
    with_spares: bool = False  # of nodes that the gang did not run on


NOTHING = Kept()


def kept_slots(
    members: Iterable[Member],
    excluded: Collection[str],
    ended_ms: int,
    not_before_ms: int = 0,
    spares: Iterable[tuple[str, int]] = (),
) -> Kept:
    """What an attempt that ended then keeps on its healthy nodes, for a restart that may begin at `not_before_ms`.

    `spares`: (node, slots) that were ready for it; it keeps them as well.
    """
    until_ms = ended_ms + KEPT_MS
    if not_before_ms >= until_ms:
        return NOTHING
    slots = tuple(
        (member.node, len(member.slots))
        for member in members
        if member.phase is MemberPhase.EXITED
        and member.end not in _NODE_AT_FAULT
        and member.node not in excluded
    )
    ready = tuple((node, count) for node, count in spares if node not in excluded)
    return Kept((*slots, *ready), until_ms, bool(ready)) if slots or ready else NOTHING


def restarts(end: EndReason | None) -> bool:
    """Whether an attempt with this end is followed by another that takes its place."""
    return end is not None and ENDS[end].retried and ENDS[end].counts != ""
