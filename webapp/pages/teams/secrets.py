"""The section Secrets of a team's page: names, never values."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from webapp.accounts import queries, services
from webapp.accounts.queries import SecretView, actor_of
from webapp.pages import fragments
from webapp.pages.accounts.forms import SecretForm, values
from webapp.pages.teams.frame import Team, submit, team_of


@dataclass(frozen=True, slots=True)
class SecretsPage:
    team: Team
    secrets: tuple[SecretView, ...]
    problems: Mapping[str, str]
    section: str = "secrets"


@sensitive_post_parameters("value")
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def secrets(request: HttpRequest, slug: str) -> HttpResponse:
    if request.method == "POST":
        return _set(request, slug)
    return _page(request, slug, {}, 200)


def _page(request: HttpRequest, slug: str, problems: Mapping[str, str], status: int) -> HttpResponse:
    page = SecretsPage(team_of(request, slug), queries.secrets(slug), problems)
    return fragments.render(request, "teams/secrets.html", page, status=status)


def _set(request: HttpRequest, slug: str) -> HttpResponse:
    def keep() -> None:
        form = values(SecretForm(request.POST))
        services.set_secret(actor_of(request), slug, form["name"], form["value"])

    done = f"Secret {request.POST.get('name', '')} is set."
    return submit(request, slug, keep, done, section="teams:secrets", show=_page)


@login_required
@require_POST
def delete(request: HttpRequest, slug: str, name: str) -> HttpResponse:
    def drop() -> None:
        services.delete_secret(actor_of(request), slug, name)

    return submit(request, slug, drop, f"Secret {name} is deleted.", section="teams:secrets", show=_page)
