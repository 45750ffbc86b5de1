"""Who deserves how much of what there is, who holds more than its guarantee, and whose it is that they hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """A team's quota of one GPU type, and what it holds."""

    team: str
    guaranteed: int
    maximum: int
    weight: float
    held: int


@dataclass(frozen=True, slots=True)
class Share:
    team: str
    deserved: int  # what it would hold if every team asked for all it may
    borrowed: int  # what it holds beyond its guarantee
    lent: int  # of its guarantee, what others hold


def shares(capacity: int, claims: Sequence[Claim]) -> tuple[Share, ...]:
    """One for each claim. Borrowers take first what nobody is guaranteed; only the rest is lent by anybody."""
    guaranteed = {claim.team: claim.guaranteed for claim in claims}
    borrowed = {claim.team: max(0, claim.held - claim.guaranteed) for claim in claims}
    unused = {claim.team: max(0, claim.guaranteed - claim.held) for claim in claims}
    nobodys = max(0, capacity - sum(guaranteed.values()))
    lent = divided(max(0, sum(borrowed.values()) - nobodys), unused, unused)
    deserved = _deserved(capacity, claims)
    return tuple(Share(team, deserved[team], borrowed[team], lent[team]) for team in guaranteed)


def _deserved(capacity: int, claims: Sequence[Claim]) -> dict[str, int]:
    """The guarantee, and of what nobody is guaranteed a part by weight up to the maximum."""
    guaranteed = {claim.team: claim.guaranteed for claim in claims}
    promised = sum(guaranteed.values())
    if promised > capacity:  # nodes are away: every guarantee gives way in proportion
        return divided(capacity, guaranteed, guaranteed)
    weights = {claim.team: claim.weight for claim in claims}
    room = {claim.team: claim.maximum - claim.guaranteed for claim in claims}
    beyond = divided(capacity - promised, weights, room)
    return {team: own + beyond[team] for team, own in guaranteed.items()}


def divided(total: int, weights: Mapping[str, float], room: Mapping[str, int]) -> dict[str, int]:
    """Whole GPUs in proportion to weights, to none more than it has room for; what the full leave goes to the rest."""
    given = dict.fromkeys(weights, 0)
    open_to = {team for team in weights if weights[team] > 0 and room[team] > 0}
    left = total
    while open_to and left:
        weight = math.fsum(weights[team] for team in open_to)
        full = {team for team in open_to if left * weights[team] >= room[team] * weight}
        if not full:
            return given | _rounded(left, {team: left * weights[team] / weight for team in open_to})
        for team in sorted(full):
            given[team] = min(room[team], left)
            left -= given[team]
        open_to -= full
    return given


def _rounded(total: int, parts: Mapping[str, float]) -> dict[str, int]:
    """Whole parts; those that lose most by it get what is left over."""
    whole = {team: math.floor(part) for team, part in parts.items()}
    over = total - sum(whole.values())
    for team in sorted(parts, key=lambda team: (whole[team] - parts[team], team))[:over]:
        whole[team] += 1
    return whole
