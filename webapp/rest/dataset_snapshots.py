"""One snapshot of a dataset over REST: its files, a preview, what differs from another, and its registration."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.queries import actor_of
from webapp.datasets import previews, queries, services
from webapp.datasets.models import Unreadable
from webapp.jobs import queries as jobs
from webapp.rest.bodies import sent
from webapp.rest.datasets import PROJECTS, PURPOSE, SnapshotOut
from webapp.rest.openapi import listed

FILES_AT_ONCE = 1000
USES_SHOWN = 200


class SnapshotFileOut(serializers.Serializer[Any]):
    path = serializers.CharField()
    bytes = serializers.IntegerField(source="size")
    sha256 = serializers.CharField()


class SnapshotDifferenceOut(serializers.Serializer[Any]):
    added = serializers.ListField(child=serializers.CharField())
    removed = serializers.ListField(child=serializers.CharField())
    changed = serializers.ListField(child=serializers.CharField())
    unchanged = serializers.IntegerField()
    added_bytes = serializers.IntegerField()
    removed_bytes = serializers.IntegerField()
    changed_bytes = serializers.IntegerField()
    unchanged_bytes = serializers.IntegerField()


class TopValue(serializers.Serializer[Any]):
    value = serializers.CharField()
    count = serializers.IntegerField()


class ColumnOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    types = serializers.ListField(child=serializers.CharField())
    nulls = serializers.IntegerField()
    lowest = serializers.CharField()
    highest = serializers.CharField()
    top = TopValue(many=True)
    histogram = serializers.ListField(
        child=serializers.IntegerField(), help_text="Numbers in equal steps from the lowest to the highest."
    )


class PreviewOut(serializers.Serializer[Any]):
    path = serializers.CharField()
    bytes = serializers.IntegerField()
    kind = serializers.CharField(help_text="table, text, image or none")
    note = serializers.CharField()
    columns = ColumnOut(many=True)
    rows = serializers.ListField(child=serializers.ListField(child=serializers.CharField()))
    text = serializers.CharField()
    rows_in_all = serializers.IntegerField(allow_null=True)
    image = serializers.CharField(help_text="As a data: URL.")


class UseOut(serializers.Serializer[Any]):
    job = serializers.CharField(source="id")
    name = serializers.CharField()
    state = serializers.CharField()


class UnreadableOut(serializers.ModelSerializer[Unreadable]):
    sample = serializers.SerializerMethodField(help_text="Its index in the loader's source; null: a shard.")
    jobs = serializers.ListField(child=serializers.CharField(), help_text="The newest that set it aside.")
    decided_by = serializers.CharField(source="decided_by.username", allow_null=True, default=None)
    state = serializers.CharField(help_text="open, dropped or released")

    class Meta:
        model = Unreadable
        fields = (
            "id", "shard", "loader", "samples", "sample", "reason", "jobs", "job_count", "first_ms", "last_ms",
            "state", "decided_by", "decided_ms",
        )  # fmt: skip

    def get_sample(self, row: Unreadable) -> int | None:
        return queries.item_of(row).sample


UNREADABLE = listed(UnreadableOut)


class ReviewIn(serializers.Serializer[Any]):
    row_ids = serializers.ListField(
        child=serializers.IntegerField(), max_length=1000, help_text="Ids of the list."
    )
    decision = serializers.CharField(max_length=10, help_text="drop or release")


class ApprovalIn(serializers.Serializer[Any]):
    purpose = serializers.CharField(max_length=40, help_text=PURPOSE)
    projects = serializers.ListField(
        child=serializers.CharField(max_length=120), default=list, max_length=100, help_text=PROJECTS
    )


class OneSnapshot(APIView):
    @extend_schema(responses={200: SnapshotOut})
    def get(self, request: Request, snapshot_id: str) -> Response:
        """Read a snapshot of a dataset, with the progress of its registration."""
        return Response(SnapshotOut(queries.seen_snapshot(actor_of(request), snapshot_id)).data)

    @extend_schema(request=ApprovalIn, responses={200: SnapshotOut})
    def patch(self, request: Request, snapshot_id: str) -> Response:
        """State the purposes and projects that a snapshot is approved for. Its owner and leads may."""
        actor = actor_of(request)
        row = queries.seen_snapshot(actor, snapshot_id)
        return Response(SnapshotOut(services.approve_for(actor, row, **sent(ApprovalIn, request))).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, snapshot_id: str) -> Response:
        """Delete a version of a dataset that no job reads now. Its owner and leads may. Files that nothing else refers
        to are listed as left over, and go after a time of grace."""
        actor = actor_of(request)
        services.delete_version(actor, queries.seen_snapshot(actor, snapshot_id), jobs.reading_dataset)
        return Response(status=204)


class SnapshotFiles(APIView):
    @extend_schema(
        parameters=[OpenApiParameter("cursor", description="As `next` of the page before.")],
        responses=listed(SnapshotFileOut, paged=True),
    )
    def get(self, request: Request, snapshot_id: str) -> Response:
        """List the files of a snapshot by path."""
        row = queries.seen_snapshot(actor_of(request), snapshot_id)
        after = request.query_params.get("cursor", "")
        files = [file for file in queries.files(row) if file["path"] > after]
        page = files[:FILES_AT_ONCE]
        following = page[-1]["path"] if len(files) > FILES_AT_ONCE else None
        return Response({"results": SnapshotFileOut(page, many=True).data, "next": following})


class SnapshotPreview(APIView):
    @extend_schema(
        parameters=[OpenApiParameter("path", required=True, description="Of a file of the snapshot.")],
        responses={200: PreviewOut},
    )
    def get(self, request: Request, snapshot_id: str) -> Response:
        """Read the beginning of a file: columns of CSV, JSON lines and Parquet, or text."""
        row = queries.seen_snapshot(actor_of(request), snapshot_id)
        return Response(
            previews.as_mapping(
                previews.preview(row, request.query_params.get("path", ""), actor_of(request).username)
            )
        )


class SnapshotDifference(APIView):
    @extend_schema(responses={200: SnapshotDifferenceOut})
    def get(self, request: Request, snapshot_id: str, other: str) -> Response:
        """Compare the files of a snapshot with those of an `other`, later one."""
        actor = actor_of(request)
        before, after = (queries.seen_snapshot(actor, each) for each in (snapshot_id, other))
        return Response(SnapshotDifferenceOut(queries.difference(before, after)).data)


class SnapshotUses(APIView):
    @extend_schema(responses=listed(UseOut))
    def get(self, request: Request, snapshot_id: str) -> Response:
        """List the jobs of your teams that use a snapshot, newest first."""
        actor = actor_of(request)
        row = queries.seen_snapshot(actor, snapshot_id)
        return Response(
            {"results": UseOut(jobs.using_datasets([row.id], actor.sees, USES_SHOWN), many=True).data}
        )


class SnapshotUnreadable(APIView):
    @extend_schema(responses=UNREADABLE)
    def get(self, request: Request, snapshot_id: str) -> Response:
        """List shards and samples that jobs could not read, those that wait for a decision first."""
        row = queries.seen_snapshot(actor_of(request), snapshot_id)
        return Response({"results": UnreadableOut(queries.unreadable_of(row.id), many=True).data})

    @extend_schema(request=ReviewIn, responses=UNREADABLE)
    def patch(self, request: Request, snapshot_id: str) -> Response:
        """Drop some, so that later jobs leave them out, or release them, so that they are read again."""
        actor = actor_of(request)
        row = queries.seen_snapshot(actor, snapshot_id)
        return Response(
            {"results": UnreadableOut(services.review(actor, row, **sent(ReviewIn, request)), many=True).data}
        )


class SnapshotCheck(APIView):
    @extend_schema(request=None, responses={202: SnapshotOut})
    def post(self, request: Request, snapshot_id: str) -> Response:
        """Compare the source of a snapshot with what was registered, in the background."""
        actor = actor_of(request)
        row = queries.seen_snapshot(actor, snapshot_id)
        services.ask_for_check(actor, row)
        return Response(SnapshotOut(row).data, status=202)


class SnapshotResume(APIView):
    @extend_schema(request=None, responses={202: SnapshotOut})
    def post(self, request: Request, snapshot_id: str) -> Response:
        """Go on with a registration that failed."""
        actor = actor_of(request)
        services.resume(actor, queries.seen_snapshot(actor, snapshot_id))
        return Response(SnapshotOut(queries.seen_snapshot(actor, snapshot_id)).data, status=202)
