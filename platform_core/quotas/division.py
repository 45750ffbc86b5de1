"""Whole GPUs, divided by weight."""

from __future__ import annotations

import math
from collections.abc import Mapping


def divided(total: int, weights: Mapping[str, float], room: Mapping[str, int]) -> dict[str, int]:
    """Divide whole GPUs in proportion to weights, at most `room` to each; what full teams leave goes to the rest."""
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
    """Round down; the remainder goes to those that lose most by it."""
    whole = {team: math.floor(part) for team, part in parts.items()}
    over = total - sum(whole.values())
    for team in sorted(parts, key=lambda team: (whole[team] - parts[team], team))[:over]:
        whole[team] += 1
    return whole
