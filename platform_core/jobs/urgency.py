"""Which priorities a person may give a job: the more urgent, the fewer people may."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

MOST_URGENT, DEFAULT_PRIORITY, LEAST_URGENT = 0, 50, 100
PRIORITIES = {"high": 20, "normal": DEFAULT_PRIORITY, "low": 80}


class Rank(IntEnum):
    MEMBER = 1
    LEAD = 2
    ADMIN = 3  # may use every priority


@dataclass(frozen=True, slots=True)
class UrgencyLimits:
    """The most urgent priority that members, and leads, may use; 0 is the most urgent."""

    members: int
    leads: int


@dataclass(frozen=True, slots=True)
class TooUrgent:
    priority: int
    limit: int
    who: str  # whose limit that is
    whom: str  # who may use the priority

    code = "priority_too_urgent"


def admit(priority: int, rank: Rank, team: str, limits: UrgencyLimits) -> TooUrgent | None:
    """None where a person of this rank in the team may use the priority."""
    if rank == Rank.ADMIN:
        return None
    limit, who = (limits.leads, "leads") if rank == Rank.LEAD else (limits.members, "members")
    if priority >= limit:
        return None
    lead = f"a lead of {team}, who may use {limits.leads} and less urgent ones, or "
    whom = f"{lead if rank == Rank.MEMBER and priority >= limits.leads else ''}a platform admin"
    return TooUrgent(priority, limit, f"{who} of {team}", whom)
