"""The departments and the teams in them, as the core wants them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from platform_core.quotas.hierarchy import TOP, Hierarchy, Sibling
from webapp.accounts import queries as accounts


@dataclass(frozen=True, slots=True)
class Tree:
    departments: Mapping[str, Sibling]  # by their keys
    teams: Mapping[str, Sibling]
    names: Mapping[str, str]  # of the departments

    def of(self, teams: Iterable[str]) -> Hierarchy:
        """What these teams share, as those do that have a quota of one type."""
        return Hierarchy(self.departments, {team: self.teams[team] for team in teams})


def load() -> Tree:
    teams = accounts.teams()
    departments = accounts.departments() if any(team.department for team in teams) else ()
    return Tree(
        {_key(each.slug): Sibling(float(each.weight), _key(each.parent)) for each in departments},
        {team.slug: Sibling(float(team.weight), _key(team.department)) for team in teams},
        {_key(each.slug): each.name for each in departments},
    )


def _key(department: str | None) -> str:
    """As no team can be called."""
    return f"{department}/" if department else TOP
