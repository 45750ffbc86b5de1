"""Shares of a cluster: what each team deserves, borrows and lends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from platform_core.quotas.division import divided
from platform_core.quotas.hierarchy import TOP, Hierarchy, Sibling


@dataclass(frozen=True, slots=True)
class Claim:
    """A team's quota of one GPU type, and what it holds."""

    team: str
    guaranteed: int
    maximum: int
    weight: float  # among its siblings
    held: int
    department: str = TOP


@dataclass(frozen=True, slots=True)
class Share:
    team: str
    deserved: int  # what it would hold if every team asked for its maximum
    borrowed: int  # what it holds beyond its guarantee
    lent: int  # the part of its guarantee that others hold


def shares(
    capacity: int, claims: Sequence[Claim], departments: Mapping[str, Sibling] | None = None
) -> tuple[Share, ...]:
    """One share for each claim. Borrowers first take slots that nobody is guaranteed; only the rest is lent."""
    guaranteed = {claim.team: claim.guaranteed for claim in claims}
    borrowed = {claim.team: max(0, claim.held - claim.guaranteed) for claim in claims}
    unused = {claim.team: max(0, claim.guaranteed - claim.held) for claim in claims}
    nobodys = max(0, capacity - sum(guaranteed.values()))
    lent = divided(max(0, sum(borrowed.values()) - nobodys), unused, unused)
    deserved = _deserved(capacity, claims, departments or {})
    return tuple(Share(team, deserved[team], borrowed[team], lent[team]) for team in guaranteed)


def _deserved(capacity: int, claims: Sequence[Claim], departments: Mapping[str, Sibling]) -> dict[str, int]:
    """The guarantee, plus a part by weight of the slots that nobody is guaranteed, up to the maximum."""
    guaranteed = {claim.team: claim.guaranteed for claim in claims}
    promised = sum(guaranteed.values())
    if promised > capacity:  # nodes are away: every guarantee gives way in proportion
        return divided(capacity, guaranteed, guaranteed)
    teams = {claim.team: Sibling(claim.weight, claim.department) for claim in claims}
    room = {claim.team: claim.maximum - claim.guaranteed for claim in claims}
    beyond = Hierarchy(departments, teams).divided(capacity - promised, room)
    return {team: own + beyond[team] for team, own in guaranteed.items()}
