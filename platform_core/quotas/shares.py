"""Who deserves how much of what there is, who holds more than its guarantee, and whose it is that they hold."""

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
    deserved: int  # what it would hold if every team asked for all it may
    borrowed: int  # what it holds beyond its guarantee
    lent: int  # of its guarantee, what others hold


def shares(
    capacity: int, claims: Sequence[Claim], departments: Mapping[str, Sibling] | None = None
) -> tuple[Share, ...]:
    """One for each claim. Borrowers take first what nobody is guaranteed; only the rest is lent by anybody."""
    guaranteed = {claim.team: claim.guaranteed for claim in claims}
    borrowed = {claim.team: max(0, claim.held - claim.guaranteed) for claim in claims}
    unused = {claim.team: max(0, claim.guaranteed - claim.held) for claim in claims}
    nobodys = max(0, capacity - sum(guaranteed.values()))
    lent = divided(max(0, sum(borrowed.values()) - nobodys), unused, unused)
    deserved = _deserved(capacity, claims, departments or {})
    return tuple(Share(team, deserved[team], borrowed[team], lent[team]) for team in guaranteed)


def _deserved(capacity: int, claims: Sequence[Claim], departments: Mapping[str, Sibling]) -> dict[str, int]:
    """The guarantee, and of what nobody is guaranteed a part by weight up to the maximum."""
    guaranteed = {claim.team: claim.guaranteed for claim in claims}
    promised = sum(guaranteed.values())
    if promised > capacity:  # nodes are away: every guarantee gives way in proportion
        return divided(capacity, guaranteed, guaranteed)
    teams = {claim.team: Sibling(claim.weight, claim.department) for claim in claims}
    room = {claim.team: claim.maximum - claim.guaranteed for claim in claims}
    beyond = Hierarchy(departments, teams).divided(capacity - promised, room)
    return {team: own + beyond[team] for team, own in guaranteed.items()}
