"""Link shares: how much of one node's link each of several deployments may use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

USUAL_WEIGHT = 10
_HELD_BACK = 0.9  # who takes so much of what it may, would take more
_GROWS = 1.5  # others are given room to grow, by the next look
_LEAST = 0.02  # of the link, so that whoever has just begun is not held back
_HEADROOM = 1.1  # over the most that was seen, so that a link that can do more is found out


@dataclass(frozen=True, slots=True)
class Share:
    """What a deployment asks for, in bytes per second. `team_cap` limits all deployments of the team together."""

    weight: int = USUAL_WEIGHT
    cap: float = inf
    team: str = ""
    team_cap: float = inf


USUAL = Share()


@dataclass(frozen=True, slots=True)
class Use:
    """What a deployment used lately, and what it was allowed."""

    share: Share
    rate: float = 0.0
    allowed: float = inf


def allot(uses: Mapping[str, Use], capacity: float, peak: float) -> dict[str, float]:
    """The rate that each deployment may use until the next look; inf is no limit.

    `capacity` inf: the capacity of the link is unknown. Then deployments of equal weight are left to the network, which
    is fair between connections, and deployments of unequal weight share the highest rate seen, `peak`.
    """
    if capacity == inf and len({use.share.weight for use in uses.values()}) > 1:
        capacity = peak * _HEADROOM if peak else inf
    wants = {
        name: use.rate * _GROWS + capacity * _LEAST
        if capacity < inf and use.rate < use.allowed * _HELD_BACK
        else inf
        for name, use in uses.items()
    }
    claims = {name: use.share for name, use in uses.items()}
    first = shares(capacity, claims, wants)
    return first if capacity == inf else _with_the_rest(capacity, claims, first)


def _with_the_rest(
    capacity: float, claims: Mapping[str, Share], first: Mapping[str, float]
) -> dict[str, float]:
    """Unused capacity may be used by anyone."""
    teams: dict[str, float] = defaultdict(float)
    for name, share in claims.items():
        teams[share.team] += first[name]
    left = {
        name: replace(share, cap=share.cap - first[name], team_cap=share.team_cap - teams[share.team])
        for name, share in claims.items()
    }
    rest = shares(capacity - sum(first.values()), left, {})
    return {name: given + rest[name] for name, given in first.items()}


def shares(capacity: float, claims: Mapping[str, Share], wants: Mapping[str, float]) -> dict[str, float]:
    """Weighted max-min fairness: all rates rise in proportion to weight until a deployment has what it wants or may
    use, or its team or the link is full.

    What one leaves goes to the others; nobody could get more without taking it from one that has less.
    """
    given = dict.fromkeys(sorted(claims), 0.0)
    limit = {name: min(claims[name].cap, wants.get(name, inf)) for name in given}
    teams: dict[str, list[str]] = {}
    for name in given:
        teams.setdefault(claims[name].team or f"\0{name}", []).append(name)
    bounds = [(capacity, list(given)), *((claims[names[0]].team_cap, names) for names in teams.values())]
    bounds += [(limit[name], [name]) for name in given]
    rising = set(given)
    while rising:
        room = [_room(bound, names, rising, given, claims) for bound, names in bounds]
        step = min(room)
        if step == inf:
            return given | dict.fromkeys(rising, inf)
        for name in rising:
            given[name] += step * claims[name].weight
        for (_, names), left in zip(bounds, room, strict=True):
            if left == step:
                rising -= set(names)
    return given


def _room(
    bound: float, names: list[str], rising: set[str], given: Mapping[str, float], claims: Mapping[str, Share]
) -> float:
    """How far the rising rates may grow, per unit of weight, before this limit is reached."""
    weight = sum(claims[name].weight for name in names if name in rising)
    return max(0.0, bound - sum(given[name] for name in names)) / weight if weight else inf
