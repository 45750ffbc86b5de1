"""What people do on the pages of datasets: register, describe, request and decide."""

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from platform_core.datasets.access import words
from platform_core.errors import TrainmasterError
from webapp.accounts.queries import actor_of
from webapp.datasets import queries, services
from webapp.jobs import queries as jobs
from webapp.pages.datasets.views import show_detail, show_list
from webapp.pages.verbs import carry_out

FIELDS = ("team", "name", "source_url", "purpose", "projects", "paths")


@login_required
@require_POST
def register(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    values = {name: request.POST.get(name, "").strip() for name in FIELDS}
    try:
        snapshot = services.register_source(
            actor, values["team"], values["name"], values["source_url"], values["purpose"],
            words(values["projects"]), values["paths"].split(),
        )  # fmt: skip
    except TrainmasterError as error:
        if error.code not in {"request_invalid", "not_found", "too_large"}:
            raise
        what = str(error.numbers.get("what", ""))
        field = next((name for name in ("name", "purpose", "paths") if name == what), "source_url")
        return show_list(request, actor, values, {field: error.sentence}, status=422)
    messages.success(request, f"{snapshot.name} version {snapshot.version} is being registered.")
    return redirect("datasets:detail", team=snapshot.team_id, name=snapshot.name)


@login_required
@require_POST
def describe(request: HttpRequest, team: str, name: str) -> HttpResponse:
    post = request.POST
    said: dict[str, object] = {
        "description": post.get("description", "").strip(),
        "licence": post.get("licence", "").strip(),
        "tags": words(post.get("tags", "")),
    }
    for field in ("follow_minutes", "fresh_minutes"):
        if field in post:
            minutes = post[field].strip()[:9]
            said |= {field: int(minutes) if minutes.isascii() and minutes.isdigit() else 0}
    if "decides" in post:  # the form of those who decide who may use it
        said |= {"listed": "listed" in post}

    def verb() -> object:
        return services.describe(actor_of(request), team, name, **said)

    return _carry_out(request, team, name, verb, "The description is saved.")


@login_required
@require_POST
def request_access(request: HttpRequest, team: str, name: str) -> HttpResponse:
    fields = [request.POST.get(field, "").strip() for field in ("team", "purpose", "project", "reason")]

    def verb() -> object:
        return services.request_access(actor_of(request), team, name, *fields)

    return _carry_out(request, team, name, verb, "The request waits for a decision.")


@login_required
@require_POST
def decide(request: HttpRequest, team: str, name: str, request_id: str) -> HttpResponse:
    actor, decision, days = actor_of(request), request.POST.get("decision", ""), request.POST.get("days", "0")

    def verb() -> object:
        if decision == "revoke":
            return services.revoke(actor, request_id)
        return services.decide(
            actor, request_id, decision == "approve", int(days) if days.isascii() and days.isdigit() else 0
        )

    return _carry_out(request, team, name, verb, "The decision is saved.")


@login_required
@require_POST
def check(request: HttpRequest, team: str, name: str, snapshot_id: str) -> HttpResponse:
    actor = actor_of(request)

    def verb() -> None:
        services.ask_for_check(actor, queries.seen_snapshot(actor, snapshot_id))

    return _carry_out(request, team, name, verb, "The source is being compared with this version.")


@login_required
@require_POST
def review(request: HttpRequest, team: str, name: str, snapshot_id: str) -> HttpResponse:
    """The rows that are ticked, or the one whose button was pressed."""
    actor, decision = actor_of(request), request.POST.get("decision", "")
    rows = [int(row) for row in request.POST.getlist("row") if row.isascii() and row.isdigit()]

    def verb() -> None:
        services.review(actor, queries.seen_snapshot(actor, snapshot_id), rows, decision)

    done = "Later jobs leave it out." if decision == "drop" else "Later jobs read it again."
    return _carry_out(request, team, name, verb, done)


@login_required
@require_POST
def resume(request: HttpRequest, team: str, name: str, snapshot_id: str) -> HttpResponse:
    actor = actor_of(request)

    def verb() -> None:
        services.resume(actor, queries.seen_snapshot(actor, snapshot_id))

    return _carry_out(request, team, name, verb, "The registration goes on.")


@login_required
@require_POST
def delete(request: HttpRequest, team: str, name: str, snapshot_id: str) -> HttpResponse:
    actor = actor_of(request)

    def verb() -> None:
        services.delete_version(actor, queries.seen_snapshot(actor, snapshot_id), jobs.reading_dataset)

    return _carry_out(request, team, name, verb, "The version is deleted.")


def _carry_out(
    request: HttpRequest, team: str, name: str, verb: Callable[[], object], done: str
) -> HttpResponse:
    return carry_out(
        request, verb, done, redirect("datasets:detail", team=team, name=name),
        lambda problems, status: show_detail(request, actor_of(request), team, name, problems, status),
    )  # fmt: skip
