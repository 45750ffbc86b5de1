"""Datasets and their snapshots over REST."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.queries import actor_of
from webapp.datasets import queries, services
from webapp.datasets.models import DatasetSnapshot
from webapp.rest.openapi import listed


class NewSnapshot(serializers.Serializer[Any]):
    team = serializers.CharField(max_length=60)
    manifest = serializers.CharField(max_length=40, help_text="Of a complete upload of the kind dataset.")
    purpose = serializers.CharField(
        max_length=40, help_text="What jobs may use it for, separated by commas, such as train,eval."
    )


class SnapshotOut(serializers.ModelSerializer[DatasetSnapshot]):
    team = serializers.CharField(source="team_id")
    manifest = serializers.CharField(source="manifest_id")
    files = serializers.IntegerField(source="manifest.files")
    bytes = serializers.IntegerField(source="manifest.total_bytes")
    created_by = serializers.CharField(source="created_by.username")

    class Meta:
        model = DatasetSnapshot
        fields = (
            "id", "team", "name", "version", "purpose", "manifest", "files", "bytes", "created_ms", "created_by",
        )  # fmt: skip


class Datasets(APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter("team", description="Only of this team."),
            OpenApiParameter("name", description="Only of the dataset with this name."),
        ],
        responses=listed(SnapshotOut),
    )
    def get(self, request: Request) -> Response:
        """List the snapshots of all datasets of your teams, newest first."""
        wanted = {name: request.query_params.get(name, "") for name in ("team", "name")}
        snapshots = [
            snapshot
            for snapshot in queries.snapshots(actor_of(request).sees)
            if wanted["team"] in ("", snapshot.team_id) and wanted["name"] in ("", snapshot.name)
        ]
        return Response({"results": SnapshotOut(snapshots, many=True).data})


class Snapshots(APIView):
    @extend_schema(request=NewSnapshot, responses={201: SnapshotOut})
    def post(self, request: Request, name: str) -> Response:
        """Register an upload as the next snapshot of a dataset.

        The same content and purpose again give the same snapshot.
        """
        body = NewSnapshot(data=request.data)
        body.is_valid(raise_exception=True)
        snapshot = services.add_snapshot(
            actor_of(request), body.validated_data["team"], name, body.validated_data["manifest"],
            body.validated_data["purpose"],
        )  # fmt: skip
        return Response(SnapshotOut(snapshot).data, status=201)
