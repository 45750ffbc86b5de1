"""The pages of reports: the list, one report, its editor and its history."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from platform_core.errors import TrainmasterError
from platform_core.experiments.comparison import direction
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.accounts.queries import teams as team_views
from webapp.base.parsing import whole_number
from webapp.pages import fragments
from webapp.pages.paging import Pager, paged
from webapp.pages.reports import embeds
from webapp.pages.reports.embeds import Part
from webapp.pages.verbs import carry_out
from webapp.reports import queries, services
from webapp.reports.models import Comment, ReadLink, Report, ReportVersion

PAGE = 30
EXAMPLE = """\
Describe the question, the runs and what they show.

```chart
runs: state = "succeeded"
metric: METRIC
```

```runs
runs: state = "succeeded"
columns: params.lr, metrics.METRIC
order: ORDER.METRIC
```
"""


@dataclass(frozen=True, slots=True)
class ReportListPage:
    filters: dict[str, str]  # q, team, deleted as given
    filtered: bool
    teams: list[str]
    may_write: bool
    reports: Sequence[Report]
    pager: Pager


@dataclass(frozen=True, slots=True)
class May:
    edit: bool
    delete: bool


@dataclass(frozen=True, slots=True)
class CommentLine:
    comment: Comment
    may_delete: bool


@dataclass(frozen=True, slots=True)
class ReportPage:
    report: Report
    shown: ReportVersion
    parts: Sequence[Part]
    may: May
    comments: Sequence[CommentLine]
    versions: Sequence[ReportVersion]
    links: Sequence[ReadLink]
    new_link: str  # the address of the link that was just made
    problems: Mapping[str, str]
    is_newest: bool  # the version that is shown


@dataclass(frozen=True, slots=True)
class EditPage:
    report: Report | None  # None for a new one
    teams: list[str]  # in which a new one may be written
    values: Mapping[str, str]  # team, title, text, version
    parts: Sequence[Part]  # of the preview
    problems: Mapping[str, str]


@login_required
@require_GET
def report_list(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    filters = {name: request.GET.get(name, "") for name in ("q", "team", "deleted")}
    matching = queries.visible(actor.sees, deleted=filters["deleted"] == "1")
    if filters["q"]:
        matching = matching.filter(title__icontains=filters["q"])
    if filters["team"]:
        matching = matching.filter(team=filters["team"])
    shown, pager = paged(request, matching, PAGE)
    page = ReportListPage(
        filters=filters,
        filtered=any(filters.values()),
        teams=[view.slug for view in team_views(actor.sees)],
        may_write=bool(_writable(actor)),
        reports=shown,
        pager=pager,
    )
    return fragments.render(request, "reports/list.html", page)


def _writable(actor: Actor) -> list[str]:
    return [view.slug for view in team_views(actor.sees) if permissions.may(actor, "report.edit", view.slug)]


def _example(team: str) -> str:
    metric = embeds.example_metric(team)
    order = "highest" if direction(metric) > 0 else "lowest"
    return EXAMPLE.replace("METRIC", metric).replace("ORDER", order)


@login_required
@require_GET
def detail(request: HttpRequest, report_id: str) -> HttpResponse:
    return show(request, report_id)


def show(
    request: HttpRequest,
    report_id: str,
    problems: Mapping[str, str] | None = None,
    status: int = 200,
    new_link: str = "",
) -> HttpResponse:
    actor = actor_of(request)
    report = queries.report_for(actor, report_id)
    wanted = request.GET.get("version", "")
    shown = queries.version(report, whole_number(wanted, "version", 10**9) if wanted else None)
    page = ReportPage(
        report=report,
        shown=shown,
        parts=embeds.shown(report.team_id, shown.text, embeds.for_members),
        may=May(
            edit=permissions.may(actor, "report.edit", report.team_id),
            delete=permissions.may(actor, "report.delete", report.team_id, report.created_by.username),
        ),
        comments=[
            CommentLine(
                comment,
                permissions.may(actor, "report.delete", report.team_id, comment.author.username),
            )
            for comment in queries.comments(report)
        ],
        versions=queries.versions(report),
        links=queries.links(report),
        new_link=new_link,
        problems=problems or {},
        is_newest=shown.number == report.version,
    )
    return fragments.render(request, "reports/detail.html", page, status)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def create(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    if request.method != "POST":
        teams = _writable(actor)
        if not teams:
            raise TrainmasterError(
                "not_allowed", what="write reports", whom="a lead of your team to make you a member"
            )
        wanted = request.GET.get("team", "")
        team = wanted if wanted in teams else teams[0]
        return _edit_page(request, None, {"team": team, "title": "", "text": _example(team)})
    team, title, text = (request.POST.get(name, "") for name in ("team", "title", "text"))
    permissions.require(actor, "report.edit", team)
    if request.POST.get("preview"):
        return _edit_page(request, None, request.POST)
    try:
        report = services.create_report(actor, team, title, text)
    except TrainmasterError as error:
        return _edit_page(request, None, request.POST, error)
    return redirect("reports:detail", report.id)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, report_id: str) -> HttpResponse:
    actor = actor_of(request)
    report = queries.report_for(actor, report_id)
    permissions.require(actor, "report.edit", report.team_id)
    if request.method != "POST":
        newest = queries.version(report)
        values = {"title": newest.title, "text": newest.text, "version": str(newest.number)}
        return _edit_page(request, report, values)
    if request.POST.get("preview"):
        return _edit_page(request, report, request.POST)
    try:
        seen = whole_number(request.POST.get("version", ""), "version", 10**9)
        title, text = request.POST.get("title", ""), request.POST.get("text", "")
        services.save_report(actor, report, title=title, text=text, seen_version=seen)
    except TrainmasterError as error:
        return _edit_page(request, report, request.POST, error)
    return redirect("reports:detail", report_id)


def _edit_page(
    request: HttpRequest,
    report: Report | None,
    given: Mapping[str, str],
    error: TrainmasterError | None = None,
) -> HttpResponse:
    values = {name: given.get(name, "") for name in ("team", "title", "text", "version")}
    team = report.team_id if report else values["team"]
    page = EditPage(
        report=report,
        teams=_writable(actor_of(request)),
        values=values,
        parts=embeds.shown(team, values["text"], embeds.for_members),
        problems={error.code: error.sentence} if error else {},
    )
    return fragments.render(request, "reports/edit.html", page, error.kind.http if error else 200)


@login_required
@require_POST
def restore_version(request: HttpRequest, report_id: str, number: int) -> HttpResponse:
    actor = actor_of(request)
    report = queries.report_for(actor, report_id)
    return _carry_out(
        request,
        report_id,
        lambda: services.restore_version(actor, report, number),
        f"Version {number} restored.",
    )


@login_required
@require_POST
def comment(request: HttpRequest, report_id: str) -> HttpResponse:
    actor = actor_of(request)
    report = queries.report_for(actor, report_id)
    text = request.POST.get("text", "")
    return _carry_out(request, report_id, lambda: services.add_comment(actor, report, text), "Comment added.")


@login_required
@require_POST
def delete_comment(request: HttpRequest, report_id: str, comment_id: int) -> HttpResponse:
    actor = actor_of(request)
    report = queries.report_for(actor, report_id)
    return _carry_out(
        request, report_id, lambda: services.delete_comment(actor, report, comment_id), "Comment deleted."
    )


@login_required
@require_POST
def delete(request: HttpRequest, report_id: str) -> HttpResponse:
    actor = actor_of(request)
    report = queries.report_for(actor, report_id)
    services.delete_report(actor, report)
    return redirect("reports:list")


@login_required
@require_POST
def restore(request: HttpRequest, report_id: str) -> HttpResponse:
    actor = actor_of(request)
    services.restore_report(actor, queries.report_for(actor, report_id, deleted=True))
    return redirect("reports:detail", report_id)


def _carry_out(request: HttpRequest, report_id: str, verb: Callable[[], object], done: str) -> HttpResponse:
    back = redirect("reports:detail", report_id)
    return carry_out(
        request, verb, done, back, lambda problems, status: show(request, report_id, problems, status)
    )
