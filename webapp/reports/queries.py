from collections.abc import Iterable

from django.db.models import Count, QuerySet

from platform_core.errors import TrainmasterError
from webapp.accounts import credentials
from webapp.accounts.permissions import Actor, require
from webapp.base.identity import now_ms
from webapp.reports.models import Comment, ReadLink, Report, ReportVersion


def visible(teams: Iterable[str] | None, *, deleted: bool = False) -> QuerySet[Report]:
    """Last changed first."""
    rows = Report.objects.filter(deleted_ms__isnull=not deleted).select_related("created_by")
    rows = rows.annotate(comment_count=Count("comments")).order_by("-changed_ms", "-id")
    return rows if teams is None else rows.filter(team__in=list(teams))


def report_for(actor: Actor, report_id: str, *, deleted: bool = False) -> Report:
    """Raises not_found for whoever may not see it."""
    report = Report.objects.select_related("created_by").filter(id=report_id).first()
    if report is None or (report.deleted_ms is not None) != deleted:
        raise TrainmasterError("not_found", what=f"report {report_id}")
    require(actor, "report.view", report.team_id, what=f"report {report_id}")
    return report


def version(report: Report, number: int | None = None) -> ReportVersion:
    """The newest, or the one with this number."""
    number = report.version if number is None else number
    known = report.versions.select_related("author").filter(number=number).first()
    if known is None:
        raise TrainmasterError("not_found", what=f"version {number} of this report")
    return known


def versions(report: Report) -> list[ReportVersion]:
    """Newest first, without their texts."""
    return list(report.versions.select_related("author").defer("text").order_by("-number"))


def comments(report: Report) -> list[Comment]:
    return list(report.comments.select_related("author").order_by("written_ms", "id"))


def links(report: Report) -> list[ReadLink]:
    """Those that still open the report."""
    rows = report.links.filter(revoked_ms=None, expires_ms__gt=now_ms()).select_related("created_by")
    return list(rows.order_by("expires_ms", "id"))


def shared_report(token: str) -> Report:
    """The report that a link with this token opens; a link that has ended is like none."""
    rows = ReadLink.objects.filter(revoked_ms=None, expires_ms__gt=now_ms(), report__deleted_ms=None)
    link = rows.select_related("report").filter(token_digest=credentials.digest(token)).first()
    if link is None:
        sentence = "This link has expired or was revoked. Ask the person who sent it to you for a new one"
        raise TrainmasterError("not_found", sentence)
    return link.report
