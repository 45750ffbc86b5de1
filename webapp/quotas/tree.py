"""The departments and their teams as values of the core."""

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
        """Returns the hierarchy of these teams, such as those with a quota of one GPU type."""
        return Hierarchy(self.departments, {team: self.teams[team] for team in teams})


def load() -> Tree:
    teams = accounts.teams()
    departments = accounts.departments() if any(team.department for team in teams) else ()
    return Tree(
        {
            _key(department.slug): Sibling(float(department.weight), _key(department.parent))
            for department in departments
        },
        {team.slug: Sibling(float(team.weight), _key(team.department)) for team in teams},
        {_key(department.slug): department.name for department in departments},
    )


def _key(department: str | None) -> str:
    """Returns a key that no team can have."""
    return f"{department}/" if department else TOP
