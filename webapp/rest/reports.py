"""Reports over REST: write, read and restore them, their versions, comments and read-only links."""

from typing import Any

from django.conf import settings
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.queries import actor_of
from webapp.reports import queries, services
from webapp.reports.models import Report
from webapp.rest.bodies import sent
from webapp.rest.openapi import listed

MOST_LISTED = 200


class ReportOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    team = serializers.CharField(source="team_id")
    title = serializers.CharField()
    version = serializers.IntegerField(help_text="The newest; send it with a change.")
    url = serializers.SerializerMethodField()
    created_by = serializers.CharField(source="created_by.username")
    created_ms = serializers.IntegerField()
    changed_ms = serializers.IntegerField()
    deleted_ms = serializers.IntegerField(allow_null=True)

    def get_url(self, report: Report) -> str:
        return f"{settings.PUBLIC_URL}{reverse('reports:detail', args=[report.id])}"


class OneReportOut(ReportOut):
    text = serializers.SerializerMethodField(help_text="Markdown with blocks of charts, runs and images.")

    def get_text(self, report: Report) -> str:
        return queries.version(report).text


class NewReport(serializers.Serializer[Any]):
    team = serializers.CharField(max_length=60)
    title = serializers.CharField(max_length=services.TITLE_LENGTH)
    text = serializers.CharField(
        max_length=services.TEXT_LENGTH, default="", allow_blank=True, trim_whitespace=False
    )


class ReportChange(serializers.Serializer[Any]):
    version = serializers.IntegerField(help_text="The one that was read; a newer one refuses the change.")
    title = serializers.CharField(max_length=services.TITLE_LENGTH, required=False)
    text = serializers.CharField(
        max_length=services.TEXT_LENGTH, required=False, allow_blank=True, trim_whitespace=False
    )


class ReportVersionOut(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    title = serializers.CharField()
    author = serializers.CharField(source="author.username")
    saved_ms = serializers.IntegerField()


class OneReportVersionOut(ReportVersionOut):
    text = serializers.CharField()


class CommentOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    author = serializers.CharField(source="author.username")
    text = serializers.CharField(help_text="Markdown.")
    written_ms = serializers.IntegerField()


class NewComment(serializers.Serializer[Any]):
    text = serializers.CharField(max_length=services.COMMENT_LENGTH)


class LinkOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    created_by = serializers.CharField(source="created_by.username")
    created_ms = serializers.IntegerField()
    expires_ms = serializers.IntegerField()


class NewLink(serializers.Serializer[Any]):
    days = serializers.IntegerField(min_value=1, max_value=services.LINK_DAYS)


class NewLinkOut(LinkOut):
    url = serializers.CharField(help_text="Opens the report without an account; shown only now.")


def _found(request: Request, report_id: str, *, deleted: bool = False) -> Report:
    return queries.report_for(actor_of(request), report_id, deleted=deleted)


class Reports(APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter("team", description="Only of this team."),
            OpenApiParameter("search", description="Part of the title."),
            OpenApiParameter("deleted", description="true: those that were deleted."),
        ],
        responses=listed(ReportOut),
    )
    def get(self, request: Request) -> Response:
        """List the 200 reports of your teams that changed last."""
        query = request.query_params
        rows = queries.visible(actor_of(request).sees, deleted=query.get("deleted") == "true")
        if team := query.get("team"):
            rows = rows.filter(team=team)
        if search := query.get("search"):
            rows = rows.filter(title__icontains=search)
        return Response({"results": ReportOut(rows[:MOST_LISTED], many=True).data})

    @extend_schema(request=NewReport, responses={201: OneReportOut})
    def post(self, request: Request) -> Response:
        """Write a report."""
        body = sent(NewReport, request)
        report = services.create_report(actor_of(request), body["team"], body["title"], body["text"])
        return Response(OneReportOut(report).data, status=201)


class OneReport(APIView):
    @extend_schema(responses={200: OneReportOut})
    def get(self, request: Request, report_id: str) -> Response:
        """Read a report with its text."""
        return Response(OneReportOut(_found(request, report_id)).data)

    @extend_schema(request=ReportChange, responses={200: OneReportOut})
    def patch(self, request: Request, report_id: str) -> Response:
        """Save a version with another title or text."""
        report, body = _found(request, report_id), sent(ReportChange, request)
        newest = queries.version(report)
        saved = services.save_report(
            actor_of(request),
            report,
            title=body.get("title", newest.title),
            text=body.get("text", newest.text),
            seen_version=body["version"],
        )
        return Response(OneReportOut(saved).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, report_id: str) -> Response:
        """Delete a report; its links answer no more until it is restored."""
        services.delete_report(actor_of(request), _found(request, report_id))
        return Response(status=204)


class ReportRestore(APIView):
    @extend_schema(request=None, responses={200: OneReportOut})
    def post(self, request: Request, report_id: str) -> Response:
        """Restore a deleted report."""
        services.restore_report(actor_of(request), _found(request, report_id, deleted=True))
        return Response(OneReportOut(_found(request, report_id)).data)


class ReportVersions(APIView):
    @extend_schema(responses=listed(ReportVersionOut))
    def get(self, request: Request, report_id: str) -> Response:
        """List the versions of a report, the newest first."""
        versions = queries.versions(_found(request, report_id))
        return Response({"results": ReportVersionOut(versions, many=True).data})


class OneReportVersion(APIView):
    @extend_schema(responses={200: OneReportVersionOut})
    def get(self, request: Request, report_id: str, number: int) -> Response:
        """Read a version of a report with its text."""
        return Response(OneReportVersionOut(queries.version(_found(request, report_id), number)).data)


class ReportVersionRestore(APIView):
    @extend_schema(request=None, responses={200: OneReportOut})
    def post(self, request: Request, report_id: str, number: int) -> Response:
        """Save an earlier version again as the newest."""
        report = services.restore_version(actor_of(request), _found(request, report_id), number)
        return Response(OneReportOut(report).data)


class ReportComments(APIView):
    @extend_schema(responses=listed(CommentOut))
    def get(self, request: Request, report_id: str) -> Response:
        """List the comments of a report, the oldest first."""
        comments = queries.comments(_found(request, report_id))
        return Response({"results": CommentOut(comments, many=True).data})

    @extend_schema(request=NewComment, responses={201: CommentOut})
    def post(self, request: Request, report_id: str) -> Response:
        """Comment on a report."""
        report, body = _found(request, report_id), sent(NewComment, request)
        return Response(
            CommentOut(services.add_comment(actor_of(request), report, body["text"])).data, status=201
        )


class OneReportComment(APIView):
    @extend_schema(responses={204: None})
    def delete(self, request: Request, report_id: str, comment_id: int) -> Response:
        """Delete a comment."""
        services.delete_comment(actor_of(request), _found(request, report_id), comment_id)
        return Response(status=204)


class ReportLinks(APIView):
    @extend_schema(responses=listed(LinkOut))
    def get(self, request: Request, report_id: str) -> Response:
        """List the read-only links of a report that still open it."""
        links = queries.links(_found(request, report_id))
        return Response({"results": LinkOut(links, many=True).data})

    @extend_schema(request=NewLink, responses={201: NewLinkOut})
    def post(self, request: Request, report_id: str) -> Response:
        """Create a read-only link for readers without an account."""
        report, body = _found(request, report_id), sent(NewLink, request)
        new = services.create_link(actor_of(request), report, body["days"])
        url = f"{settings.PUBLIC_URL}{reverse('reports:shared', args=[new.token])}"
        return Response({**LinkOut(new.link).data, "url": url}, status=201)


class OneReportLink(APIView):
    @extend_schema(responses={204: None})
    def delete(self, request: Request, report_id: str, link_id: int) -> Response:
        """Revoke a read-only link."""
        services.revoke_link(actor_of(request), _found(request, report_id), link_id)
        return Response(status=204)
