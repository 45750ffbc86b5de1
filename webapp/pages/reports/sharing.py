"""A report for readers without an account: links to it, and the page, charts and images that such a link opens.

Whatever a link opens is found through the blocks of the report, never by an id out of the address: nothing else can be
reached with it.
"""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from platform_core.errors import TrainmasterError
from webapp.accounts.queries import actor_of
from webapp.base.parsing import whole_number
from webapp.pages import fragments
from webapp.pages.reports import document, embeds
from webapp.pages.reports.document import Embed
from webapp.pages.reports.views import show
from webapp.pages.verbs import carry_out
from webapp.reports import queries, services
from webapp.reports.models import Report


@login_required
@require_POST
def create_link(request: HttpRequest, report_id: str) -> HttpResponse:
    """Shows the report with the address of the new link, which is never shown again."""
    actor = actor_of(request)
    report = queries.report_for(actor, report_id)
    try:
        days = whole_number(request.POST.get("days", ""), "days", 10**6)
        new = services.create_link(actor, report, days)
    except TrainmasterError as error:
        if error.code == "not_allowed":
            raise
        return show(request, report_id, {error.code: error.sentence}, error.kind.http)
    address = request.build_absolute_uri(reverse("reports:shared", args=[new.token]))
    return show(request, report_id, new_link=address)


@login_required
@require_POST
def revoke_link(request: HttpRequest, report_id: str, link_id: int) -> HttpResponse:
    actor = actor_of(request)
    report = queries.report_for(actor, report_id)
    return carry_out(
        request,
        lambda: services.revoke_link(actor, report, link_id),
        "Link revoked: it opens the report no more.",
        redirect("reports:detail", report_id),
        lambda problems, status: show(request, report_id, problems, status),
    )


@require_GET
@never_cache
def shared(request: HttpRequest, token: str) -> HttpResponse:
    report = queries.shared_report(token)
    shown = queries.version(report)
    page = {
        "title": shown.title,
        "saved_ms": shown.saved_ms,
        "parts": embeds.shown(report.team_id, shown.text, embeds.for_link(token)),
    }
    response = fragments.render(request, "reports/shared.html", page)
    response["X-Robots-Tag"] = "noindex"
    response["Referrer-Policy"] = "no-referrer"
    return response


@require_GET
@never_cache
def shared_chart(request: HttpRequest, token: str, number: int) -> JsonResponse:
    report = queries.shared_report(token)
    return JsonResponse(embeds.chart_values(report.team_id, _embed(report, number, "chart")))


@require_GET
@never_cache
def shared_image(request: HttpRequest, token: str, number: int) -> HttpResponseBase:
    report = queries.shared_report(token)
    return embeds.image_response(report.team_id, _embed(report, number, "image"))


def _embed(report: Report, number: int, kind: str) -> Embed:
    for embed in document.embeds(queries.version(report).text):
        if embed.number == number and embed.kind == kind and not embed.problem:
            return embed
    raise TrainmasterError("not_found", what=f"{kind} {number} of this report")
