"""Fair share: recent use of teams against their weights. Use decays by half in each half-life."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from platform_core.units import DAY_MS

HALF_LIFE_MS = 7 * DAY_MS
HIGHEST_SHARE = 10.0  # the share of a team without weight; infinity would not sort or print well


@dataclass(frozen=True, slots=True)
class Use:
    """A ledger entry: slots held by a team from `started_ms` until `ended_ms`, None while they are held."""

    team: str
    slots: int
    started_ms: int
    ended_ms: int | None


def decayed(use: Use, now_ms: int, half_life_ms: int = HALF_LIFE_MS) -> float:
    """Slot-milliseconds, each weighted by 2^(-age / half-life): the integral over the time held."""
    end = now_ms if use.ended_ms is None else min(use.ended_ms, now_ms)
    begin = min(use.started_ms, end)
    # expm1 keeps short holdings exact, where two nearly equal powers would cancel out
    within = -math.expm1(-math.log(2) * (end - begin) / half_life_ms)
    return faded(use.slots * half_life_ms / math.log(2) * within, now_ms - end, half_life_ms)


def faded(used: float, passed_ms: int, half_life_ms: int = HALF_LIFE_MS) -> float:
    """Use after it has decayed for `passed_ms`."""
    return used * math.exp2(-passed_ms / half_life_ms)


def usage_shares(
    uses: Iterable[Use], weights: Mapping[str, float], now_ms: int, half_life_ms: int = HALF_LIFE_MS
) -> dict[str, float]:
    """For each team in `weights`: its part of all recent use, divided by its part of all weights.

    1.0 is exactly its share, 2.0 twice of it, 0.0 when it used nothing. Weights are usually the guaranteed
    GPUs of one type; the uses are of that type too. Teams that are not in `weights` do not count.
    """
    return shares_of(decayed_by_team(uses, weights, now_ms, half_life_ms), weights)


def decayed_by_team(
    uses: Iterable[Use], teams: Iterable[str], now_ms: int, half_life_ms: int = HALF_LIFE_MS
) -> dict[str, float]:
    """Decayed slot-milliseconds of each of these teams."""
    used = dict.fromkeys(teams, 0.0)
    for use in uses:
        if use.team in used:
            used[use.team] += decayed(use, now_ms, half_life_ms)
    return used


def shares_of(used: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    all_used, all_weights = math.fsum(used.values()), math.fsum(weights.values())
    return {team: _share(used[team], all_used, weights[team], all_weights) for team in weights}


def _share(used: float, all_used: float, weight: float, all_weights: float) -> float:
    if used <= 0.0:
        return 0.0
    if weight <= 0.0:
        return HIGHEST_SHARE
    return min(HIGHEST_SHARE, (used / all_used) / (weight / all_weights))
