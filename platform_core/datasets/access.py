"""The gate between a job and a dataset version: for which purposes, teams and projects a version may be used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Use:
    """What a job wants a version for."""

    team: str
    project: str
    purpose: str


@dataclass(frozen=True, slots=True)
class Terms:
    """For what the owners of a version have approved it. No projects: every project of their team."""

    team: str
    purposes: tuple[str, ...]
    projects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Grant:
    """One use more, approved on request. No project: every project of that team; 0: it does not expire."""

    team: str
    project: str
    purpose: str
    expires_ms: int = 0

    def covers(self, use: Use) -> bool:
        same = (self.team, self.purpose) == (use.team, use.purpose)
        return same and self.project in ("", use.project)


def words(text: str) -> tuple[str, ...]:
    """The names in a list that is separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def why_not(use: Use, terms: Terms, grants: Iterable[Grant], now_ms: int) -> str:
    """Empty where the terms or a grant that has not expired allow this use; otherwise the reason, with both named."""
    use = Use(use.team, use.project.strip(), use.purpose.strip())
    refusals = []
    if use.team != terms.team:
        refusals.append(f"it belongs to team {terms.team}, and the job is of team {use.team}")
    if use.purpose not in terms.purposes:
        approved = ", ".join(terms.purposes) or "nothing"
        refusals.append(
            f"it is approved for {approved}, and the job's purpose is {use.purpose or 'not given'}"
        )
    if terms.projects and use.team == terms.team and use.project not in terms.projects:
        approved = ", ".join(terms.projects)
        project = use.project or "not given"
        refusals.append(f"it is approved for the project {approved}, and the job's project is {project}")
    covering = [grant for grant in grants if grant.covers(use)]
    if not refusals or any(grant.expires_ms == 0 or now_ms < grant.expires_ms for grant in covering):
        return ""
    if covering:
        refusals.append("a grant for this use has expired")
    return "; ".join(refusals)
