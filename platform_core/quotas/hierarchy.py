"""Teams in departments, departments in departments: what a weight among siblings means for the whole.

The part of a team is the product of its fractions on the way from the top. Recent use is compared between siblings,
too, as in Slurm's Fair Tree (slurm.schedmd.com/fair_tree.html) and in hierarchical DRF (Bhattacharya et al., SoCC'13):
a department that had too much is held back with all its teams, and what one team leaves idle is first its department's.
Fair Tree makes a rank of it, which forgets how much and turns whole departments around for a hair's breadth. Here it is
a number of shares that stands beside priority and wait. So the upper levels outweigh the lower ones by a bound instead
(as in its forerunner LEVEL_BASED): whatever happens inside a department counts less than half a share of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from platform_core.quotas.division import divided
from platform_core.quotas.fair_share import shares_of

Number = TypeVar("Number", int, float)

INSIDE = 0.5  # what happens inside a department counts less than this part of a share
TOP = ""  # the parent of everything that belongs to no department


@dataclass(frozen=True, slots=True)
class Sibling:
    """A team or a department among those of the same department."""

    weight: float
    department: str = TOP


class Hierarchy:
    """These teams and the departments above them. A department without teams is not in it: its part is its siblings'.

    So is the part of one whose teams all have weight 0. Names of teams and departments must differ. Raises ValueError
    for a department that is not known or is within itself.
    """

    def __init__(self, departments: Mapping[str, Sibling], teams: Mapping[str, Sibling]) -> None:
        if both := departments.keys() & teams.keys():
            raise ValueError(f"{min(both)} is a team and a department; each needs a name of its own")
        members = {**departments, **teams}
        # Team → the departments above it from the top down, and itself.
        self.ways = {team: (*way(departments, teams[team].department), team) for team in teams}
        # Who stands in a department, parents before their children. The values are ignored: an ordered set.
        self.within: dict[str, dict[str, None]] = {}
        self._weights = dict.fromkeys(members, 0.0)
        for names in self.ways.values():
            counts = all(members[name].weight > 0 for name in names)
            for parent, name in zip((TOP, *names), names, strict=False):
                self.within.setdefault(parent, {})[name] = None
                if counts:
                    self._weights[name] = members[name].weight

    def weights(self) -> dict[str, float]:
        """For each team its weight, as if no department were between it and the top."""
        weight_of: dict[str, float] = {}
        for parent, names in self.within.items():
            among = self._among(names)
            total = math.fsum(among.values())
            for name, weight in among.items():
                weight_of[name] = (
                    weight if parent == TOP or not weight else weight_of[parent] * weight / total
                )
        return {team: weight_of[team] for team in self.ways}

    def fractions(self) -> dict[str, float]:
        """For each team its part of what is shared. They add up to 1, or to 0 where nobody has weight."""
        weights = self.weights()
        total = math.fsum(weights.values())
        return {team: weight / total if total else 0.0 for team, weight in weights.items()}

    def divided(self, total: int, room: Mapping[str, int]) -> dict[str, int]:
        """Whole GPUs by weight from the top down, to no team more than it has room for.

        What one cannot take goes to its siblings, and to others only if they are full.
        """
        rooms = self._summed(lambda team: room[team] if self._weights[team] else 0)
        given = {TOP: total}
        for parent, names in self.within.items():
            given |= divided(given[parent], self._among(names), rooms)
        return {team: given[team] for team in self.ways}

    def shares_among_siblings(self, used: Mapping[str, float]) -> dict[str, float]:
        """For each team and department: its part of its siblings' use, divided by its part of their weights."""
        all_used = self._summed(lambda team: used[team])
        relative: dict[str, float] = {}
        for names in self.within.values():
            relative |= shares_of({name: all_used[name] for name in names}, self._among(names))
        return relative

    def usage_shares(self, used: Mapping[str, float]) -> dict[str, float]:
        """For each team the share that the order of jobs uses: 1.0 is exactly its share, 2.0 twice as much."""
        among = self.shares_among_siblings(used)
        return {team: _counted([among[name] for name in names]) for team, names in self.ways.items()}

    def _among(self, names: Iterable[str]) -> dict[str, float]:
        return {name: self._weights[name] for name in names}

    def _summed(self, of_team: Callable[[str], Number]) -> dict[str, Number]:
        """Teams, and departments as the sum of their teams."""
        sums: dict[str, Number] = {}
        for team, names in self.ways.items():
            for name in names:
                sums[name] = sums[name] + of_team(team) if name in sums else of_team(team)
        return sums


def way(departments: Mapping[str, Sibling], department: str) -> tuple[str, ...]:
    """From the top down to this department. Raises ValueError for an unknown one and for a circle."""
    path: list[str] = []
    while department != TOP:
        if department not in departments:
            raise ValueError(f"there is no department {department}")
        if department in path:
            loop = " in ".join([*path[path.index(department) :], department])
            raise ValueError(f"a department cannot be within itself: {loop}")
        path.append(department)
        department = departments[department].department
    return tuple(reversed(path))


def _counted(shares: list[float]) -> float:
    """The share of the topmost department, plus less than INSIDE for overuse within it; deeper levels count less."""
    overuse = 0.0
    for share in reversed(shares[1:]):
        overuse += max(0.0, share - 1.0)
        overuse *= INSIDE / (1.0 + overuse)
    return max(1.0, shares[0]) + overuse if overuse else shares[0]
