"""Teams and the departments above them: create, rename, weigh, move, archive."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from webapp.accounts import queries, services
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import DepartmentView, TeamView, actor_of
from webapp.pages import fragments
from webapp.pages.accounts.forms import values
from webapp.pages.admin_pages.access import for_admins
from webapp.pages.admin_pages.forms import (
    DepartmentForm,
    NewDepartmentForm,
    NewTeamForm,
    TeamForm,
)
from webapp.pages.verbs import carry_out

DEEPEST = 4  # further in nothing is indented more


@dataclass(frozen=True, slots=True)
class TeamRow:
    team: TeamView
    department: str  # its name, "" for none
    members: int


@dataclass(frozen=True, slots=True)
class TeamsPage:
    teams: tuple[TeamRow, ...]
    archived: tuple[TeamRow, ...]
    departments: tuple[DepartmentView, ...]
    problems: Mapping[str, str] = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Branch:
    """A department in the tree, below its parent."""

    department: DepartmentView
    depth: int
    percent: str  # of what its parent gets
    teams: tuple[TeamView, ...]
    empty: bool  # nothing stands in it: it can be deleted


@dataclass(frozen=True, slots=True)
class DepartmentsPage:
    branches: tuple[Branch, ...]
    outside: tuple[TeamView, ...]  # teams in no department
    departments: tuple[DepartmentView, ...]
    problems: Mapping[str, str] = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict)


@for_admins
@require_safe
def teams(request: HttpRequest) -> HttpResponse:
    return _teams(request)


def _teams(
    request: HttpRequest, problems: Mapping[str, str] | None = None, status: int = 200
) -> HttpResponse:
    departments = queries.departments()
    names = {department.slug: department.name for department in departments}
    members = queries.member_counts()

    def row(team: TeamView) -> TeamRow:
        return TeamRow(team, names.get(team.department or "", ""), members.get(team.slug, 0))

    page = TeamsPage(
        teams=tuple(map(row, queries.teams())),
        archived=tuple(map(row, queries.archived_teams())),
        departments=departments,
        problems=problems or {},
        typed=request.POST.dict() if problems else {},
    )
    return fragments.render(request, "admin_pages/teams.html", page, status=status)


@for_admins
@require_POST
def create_team(request: HttpRequest) -> HttpResponse:
    def create(actor: Actor) -> None:
        services.create_team(actor, **values(NewTeamForm(request.POST)))

    return _team_verb(
        request, create, f"Team {request.POST.get('slug', '')} is created. Give it a quota next."
    )


@for_admins
@require_POST
def change_team(request: HttpRequest, slug: str) -> HttpResponse:
    def change(actor: Actor) -> None:
        services.change_team(actor, slug, **values(TeamForm(request.POST)))

    return _team_verb(request, change, f"Team {slug} is saved.")


@for_admins
@require_POST
def archive_team(request: HttpRequest, slug: str) -> HttpResponse:
    return _team_verb(request, lambda actor: services.archive_team(actor, slug), f"Team {slug} is archived.")


@for_admins
@require_POST
def restore_team(request: HttpRequest, slug: str) -> HttpResponse:
    done = f"Team {slug} is restored. It needs a quota before it can run jobs."
    return _team_verb(request, lambda actor: services.restore_team(actor, slug), done)


def _team_verb(request: HttpRequest, verb: Callable[[Actor], None], done: str) -> HttpResponse:
    return carry_out(
        request,
        lambda: verb(actor_of(request)),
        done,
        redirect("admin_pages:teams"),
        lambda problems, status: _teams(request, problems, status),
    )


@for_admins
@require_safe
def departments(request: HttpRequest) -> HttpResponse:
    return _departments(request)


def _departments(
    request: HttpRequest, problems: Mapping[str, str] | None = None, status: int = 200
) -> HttpResponse:
    departments, teams = queries.departments(), (*queries.teams(), *queries.archived_teams())
    page = DepartmentsPage(
        branches=_tree(departments, teams),
        outside=tuple(team for team in teams if team.department is None and team.archived_ms is None),
        departments=departments,
        problems=problems or {},
        typed=request.POST.dict() if problems else {},
    )
    return fragments.render(request, "admin_pages/departments.html", page, status=status)


def _tree(departments: tuple[DepartmentView, ...], teams: tuple[TeamView, ...]) -> tuple[Branch, ...]:
    """Each department followed by what stands in it; siblings by name."""

    def below(parent: str | None, depth: int) -> tuple[Branch, ...]:
        children = [child for child in departments if child.parent == parent]
        beside = [team for team in teams if team.department == parent and team.archived_ms is None]
        total = sum(child.weight for child in children) + sum(team.weight for team in beside)
        return tuple(
            branch
            for child in children
            for branch in (_branch(child, depth, total), *below(child.slug, depth + 1))
        )

    def _branch(department: DepartmentView, depth: int, total: int) -> Branch:
        inside = tuple(team for team in teams if team.department == department.slug)
        holds_more = any(child.parent == department.slug for child in departments)
        percent = f"{100 * department.weight / total:.3g} %"
        return Branch(department, min(depth, DEEPEST), percent, inside, not inside and not holds_more)

    return below(None, 0)


@for_admins
@require_POST
def create_department(request: HttpRequest) -> HttpResponse:
    def create(actor: Actor) -> None:
        services.create_department(actor, **values(NewDepartmentForm(request.POST)))

    return _department_verb(request, create, f"Department {request.POST.get('slug', '')} is created.")


@for_admins
@require_POST
def change_department(request: HttpRequest, slug: str) -> HttpResponse:
    def change(actor: Actor) -> None:
        services.change_department(actor, slug, **values(DepartmentForm(request.POST)))

    return _department_verb(request, change, f"Department {slug} is saved.")


@for_admins
@require_POST
def delete_department(request: HttpRequest, slug: str) -> HttpResponse:
    def delete(actor: Actor) -> None:
        services.delete_department(actor, slug)

    return _department_verb(request, delete, f"Department {slug} is deleted.")


def _department_verb(request: HttpRequest, verb: Callable[[Actor], None], done: str) -> HttpResponse:
    return carry_out(
        request,
        lambda: verb(actor_of(request)),
        done,
        redirect("admin_pages:departments"),
        lambda problems, status: _departments(request, problems, status),
    )
