"""The page of booked maintenance: everybody sees it, operators book and cancel."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from platform_core.errors import TrainmasterError
from platform_core.units import HOUR_MS, plural
from webapp.accounts.permissions import Actor, may, require
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.nodes import queries, services
from webapp.nodes.models import MaintenanceWindow
from webapp.pages import fragments


@dataclass(frozen=True, slots=True)
class MaintenancePage:
    """Fragment: list."""

    windows: Sequence[Any]  # not over, the next first
    may: dict[str, bool]
    values: dict[str, str]  # of the form
    problems: dict[str, str]


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def maintenance(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    require(actor, "node.operate" if request.method == "POST" else "node.view")
    problem, status = "", 200
    if request.method == "POST":
        try:
            window = _book(actor, request.POST.dict())
        except TrainmasterError as error:
            problem, status = error.sentence, 422
        else:
            messages.success(request, f"Maintenance of {plural(len(window.nodes), 'node')} is booked.")
            return redirect("nodes:maintenance")
    page = MaintenancePage(
        windows=queries.maintenance(),
        may={"operate": may(actor, "node.operate")},
        values={"hours": "1", "begins": "0", **request.POST.dict(), "node": request.GET.get("node", "")},
        problems={"window": problem} if problem else {},
    )
    return fragments.render(request, "nodes/maintenance.html", page, status=status)


@login_required
@require_POST
def cancel(request: HttpRequest, window_id: int) -> HttpResponse:
    services.cancel_maintenance(actor_of(request), window_id)
    messages.success(request, "The maintenance is cancelled.")
    return redirect("nodes:maintenance")


def _book(actor: Actor, form: dict[str, str]) -> MaintenanceWindow:
    begin_ms = now_ms() + _hours(form, "begins")
    nodes = form.get("nodes", "").replace(",", " ").split()
    return services.book_maintenance(
        actor, nodes, begin_ms, begin_ms + _hours(form, "hours"), form.get("reason", "")
    )


def _hours(form: dict[str, str], name: str) -> int:
    try:
        hours = float(form.get(name, ""))
    except ValueError:
        hours = -1.0
    if not 0 <= hours <= 9_000:
        why = "it must be a number of hours, such as 1.5"
        raise TrainmasterError("request_invalid", what=f"{name} {form.get(name, '')!r}", why=why)
    return round(hours * HOUR_MS)
