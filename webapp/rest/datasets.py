"""Datasets and their snapshots over REST: lists, registration, and what people say of a dataset."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from webapp.accounts.queries import actor_of
from webapp.datasets import queries, services
from webapp.datasets.models import DatasetSnapshot
from webapp.rest.bodies import sent
from webapp.rest.openapi import listed

PURPOSE = "What jobs may use it for, separated by commas, such as train,eval."
PROJECTS = "Projects of the team that may use it; none: all of them."


class NewSnapshot(serializers.Serializer[Any]):
    team = serializers.CharField(max_length=60)
    manifest = serializers.CharField(
        max_length=40, required=False, help_text="Of a complete upload of the kind dataset."
    )
    source_url = serializers.CharField(
        max_length=2000,
        required=False,
        help_text="Where the files lie and stay: s3://…, gs://…, file://… or https://…",
    )
    paths = serializers.ListField(
        child=serializers.CharField(max_length=1000), default=list, max_length=services.MOST_PATHS,
        help_text="Only of these files below source_url; a web server needs them.",
    )  # fmt: skip
    purpose = serializers.CharField(max_length=40, help_text=PURPOSE)
    projects = serializers.ListField(
        child=serializers.CharField(max_length=120), default=list, max_length=100, help_text=PROJECTS
    )


class SnapshotOut(serializers.ModelSerializer[DatasetSnapshot]):
    team = serializers.CharField(source="team_id")
    manifest = serializers.CharField(source="manifest_id", allow_null=True)
    files = serializers.SerializerMethodField()
    bytes = serializers.SerializerMethodField()
    created_by = serializers.CharField(source="created_by.username")
    projects = serializers.ListField(child=serializers.CharField())
    check_result = serializers.DictField()

    class Meta:
        model = DatasetSnapshot
        fields = (
            "id", "team", "name", "version", "purpose", "projects", "state", "error", "source", "manifest",
            "files", "bytes", "files_done", "bytes_done", "checked_ms", "check_result", "created_ms", "created_by",
        )  # fmt: skip

    def get_files(self, row: DatasetSnapshot) -> int:
        return row.manifest.files if row.manifest else row.files_found

    def get_bytes(self, row: DatasetSnapshot) -> int:
        return row.manifest.total_bytes if row.manifest else row.bytes_found


class CardIn(serializers.Serializer[Any]):
    owner = serializers.CharField(
        max_length=150, required=False, help_text="Who decides on requests, with the leads."
    )
    description = serializers.CharField(max_length=20_000, required=False, allow_blank=True)
    licence = serializers.CharField(max_length=120, required=False, allow_blank=True)
    tags = serializers.ListField(child=serializers.CharField(max_length=60), required=False, max_length=50)
    listed = serializers.BooleanField(required=False, help_text="Other teams see it and may request access.")
    follow_minutes = serializers.IntegerField(
        required=False,
        min_value=0,
        help_text="Minutes between looks for what has come to its source; 0: none.",
    )
    fresh_minutes = serializers.IntegerField(
        required=False, min_value=0, max_value=services.MOST_FRESH_MINUTES,
        help_text="How old its newest version is at most; an alert fires when it is older. 0: nothing is promised.",
    )  # fmt: skip


class CardOut(serializers.Serializer[Any]):
    team = serializers.CharField()
    name = serializers.CharField()
    owner = serializers.CharField()
    description = serializers.CharField()
    licence = serializers.CharField()
    tags = serializers.ListField(child=serializers.CharField())
    listed = serializers.BooleanField()
    follow_minutes = serializers.IntegerField()
    followed_ms = serializers.IntegerField(help_text="When its source was last looked at; 0: never.")
    follow_error = serializers.CharField(help_text="Why the last look made no version.")
    fresh_minutes = serializers.IntegerField()


class Datasets(APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter("team", description="Only of this team."),
            OpenApiParameter("name", description="Only of the dataset with this name."),
            OpenApiParameter("search", description="Only with this in the name, the description or a tag."),
        ],
        responses=listed(SnapshotOut),
    )
    def get(self, request: Request) -> Response:
        """List the snapshots of all datasets of your teams, and of those granted to them, newest first."""
        actor = actor_of(request)
        wanted = {name: request.query_params.get(name, "") for name in ("team", "name", "search")}
        cards = queries.cards(actor.sees) if wanted["search"] else {}
        snapshots = [
            snapshot
            for snapshot in queries.snapshots(actor.sees)
            if wanted["team"] in ("", snapshot.team_id)
            and wanted["name"] in ("", snapshot.name)
            and queries.matches(wanted["search"], snapshot, cards.get((snapshot.team_id, snapshot.name)))
        ]
        return Response({"results": SnapshotOut(snapshots, many=True).data})


class Snapshots(APIView):
    @extend_schema(request=NewSnapshot, responses={201: SnapshotOut})
    def post(self, request: Request, name: str) -> Response:
        """Register the next snapshot of a dataset, from exactly one of manifest and source_url.

        The same upload for the same uses again gives the same snapshot. Files at a source_url stay there: they are
        listed and hashed in the background, and the state of the snapshot tells how far that is.
        """
        body = sent(NewSnapshot, request)
        actor, where = actor_of(request), (body["team"], name)
        if ("manifest" in body) == ("source_url" in body):
            raise TrainmasterError(
                "request_invalid", what="the source", why="give one of manifest and source_url"
            )
        if "manifest" in body:
            snapshot = services.add_snapshot(
                actor, *where, body["manifest"], body["purpose"], body["projects"]
            )
        else:
            snapshot = services.register_source(
                actor, *where, body["source_url"], body["purpose"], body["projects"], body["paths"]
            )
        return Response(SnapshotOut(snapshot).data, status=201)


class DatasetCard(APIView):
    @extend_schema(responses={200: CardOut})
    def get(self, request: Request, slug: str, name: str) -> Response:
        """Read what people say of a dataset."""
        if not queries.sees_card(actor_of(request), slug, name):
            raise TrainmasterError("not_found", what=f"dataset {slug}/{name}")
        return Response(CardOut(queries.card(slug, name)).data)

    @extend_schema(request=CardIn, responses={200: CardOut})
    def patch(self, request: Request, slug: str, name: str) -> Response:
        """Change what people say of a dataset."""
        services.describe(actor_of(request), slug, name, **sent(CardIn, request))
        return Response(CardOut(queries.card(slug, name)).data)
