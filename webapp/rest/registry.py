"""Models over REST."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from webapp.accounts.queries import actor_of
from webapp.registry import queries, services
from webapp.registry.models import ModelVersion
from webapp.rest.openapi import listed


class NewVersion(serializers.Serializer[Any]):
    team = serializers.CharField(max_length=60)
    checkpoint = serializers.CharField(max_length=40, required=False, default="", allow_blank=True)
    manifest = serializers.CharField(max_length=40, required=False, default="", allow_blank=True)
    source_url = serializers.CharField(max_length=2000, required=False, default="", allow_blank=True)


class VersionOut(serializers.ModelSerializer[ModelVersion]):
    model = serializers.CharField(source="model.__str__", read_only=True)
    bytes = serializers.IntegerField(source="manifest.total_bytes", default=None)

    class Meta:
        model = ModelVersion
        fields = (
            "id",
            "model",
            "version",
            "state",
            "error",
            "source",
            "manifest",
            "bytes",
            "metrics",
            "created_ms",
        )


class Models(APIView):
    @extend_schema(responses=listed(VersionOut))
    def get(self, request: Request) -> Response:
        """Every version of every model you may see."""
        found = queries.models(actor_of(request).sees)
        versions = [version for model in found for version in queries.versions(model)]
        return Response({"results": VersionOut(versions, many=True).data})


class Versions(APIView):
    @extend_schema(request=NewVersion, responses={201: VersionOut})
    def post(self, request: Request, name: str) -> Response:
        """Register the next version of a model."""
        wanted = NewVersion(data=request.data)
        wanted.is_valid(raise_exception=True)
        data = dict(wanted.validated_data)
        version = services.register(actor_of(request), data.pop("team"), name, **data)
        return Response(VersionOut(version).data, status=201)


class VersionDetail(APIView):
    @extend_schema(responses={200: VersionOut})
    def get(self, request: Request, version_id: str) -> Response:
        version = queries.version(version_id)
        actor = actor_of(request)
        if version is None or (actor.sees is not None and version.model.team_id not in actor.sees):
            raise TrainmasterError("not_found", what=f"model version {version_id}")
        return Response(VersionOut(version).data)
