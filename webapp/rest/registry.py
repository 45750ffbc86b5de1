"""Models over REST."""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from platform_core.registry import signatures
from webapp.accounts.queries import actor_of
from webapp.registry import facts, queries, services
from webapp.registry.models import ModelVersion
from webapp.rest.openapi import listed


class NewVersion(serializers.Serializer[Any]):
    team = serializers.CharField(max_length=60)
    checkpoint = serializers.CharField(
        max_length=40, required=False, default="", allow_blank=True, help_text="Id of a checkpoint, ckpt-…"
    )
    manifest = serializers.CharField(
        max_length=40,
        required=False,
        default="",
        allow_blank=True,
        help_text="Of a complete upload of the kind model.",
    )
    source_url = serializers.CharField(
        max_length=2000,
        required=False,
        default="",
        allow_blank=True,
        help_text="Folder of files in a store, s3://… or file://…; they stay there.",
    )
    artifact = serializers.CharField(
        max_length=1000, required=False, default="", allow_blank=True,
        help_text="RUN/FOLDER: a folder or file that a run of the team logged, such as job-…/exported.",
    )  # fmt: skip


class TensorIn(serializers.Serializer[Any]):
    name = serializers.CharField(required=False, allow_blank=True, default="")
    dtype = serializers.CharField(help_text="Such as float32.")
    shape = serializers.ListField(
        child=serializers.IntegerField(allow_null=True, min_value=0),
        help_text="null: as many as the caller sends.",
    )


class SignatureIn(serializers.Serializer[Any]):
    inputs = TensorIn(many=True, required=False)
    outputs = TensorIn(many=True, required=False)


class VersionOut(serializers.ModelSerializer[ModelVersion]):
    model = serializers.CharField(source="model.__str__", read_only=True)
    bytes = serializers.IntegerField(source="manifest.total_bytes", default=None)
    aliases = serializers.SlugRelatedField[Any](slug_field="name", many=True, read_only=True)
    formats = serializers.SerializerMethodField(help_text="By the names of its files.")
    signature = serializers.SerializerMethodField(
        help_text="As people gave it, else that of its exports; an empty object where neither is known."
    )

    class Meta:
        model = ModelVersion
        fields = (
            "id",
            "model",
            "version",
            "state",
            "stage",
            "aliases",
            "tags",
            "description",
            "error",
            "source",
            "manifest",
            "bytes",
            "formats",
            "signature",
            "licence",
            "metrics",
            "created_ms",
        )

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_formats(self, row: ModelVersion) -> list[str]:
        return facts.formats(row)

    @extend_schema_field(SignatureIn)
    def get_signature(self, row: ModelVersion) -> dict[str, Any]:
        return signatures.as_mapping(facts.signature(row))


class Models(APIView):
    @extend_schema(responses=listed(VersionOut))
    def get(self, request: Request) -> Response:
        """List all versions of the models of your teams."""
        models = queries.models(actor_of(request).sees)
        versions = [version for model in models for version in queries.versions(model)]
        return Response({"results": VersionOut(versions, many=True).data})


class Versions(APIView):
    @extend_schema(request=NewVersion, responses={201: VersionOut})
    def post(self, request: Request, name: str) -> Response:
        """Register the next version of a model, from exactly one of checkpoint, manifest, source_url and artifact."""
        body = NewVersion(data=request.data)
        body.is_valid(raise_exception=True)
        data = dict(body.validated_data)
        version = services.register(actor_of(request), data.pop("team"), name, **data)
        return Response(VersionOut(version).data, status=201)


class VersionDetail(APIView):
    @extend_schema(responses={200: VersionOut})
    def get(self, request: Request, version_id: str) -> Response:
        """Read a version of a model."""
        version = queries.version(version_id)
        actor = actor_of(request)
        if version is None or (actor.sees is not None and version.model.team_id not in actor.sees):
            raise TrainmasterError("not_found", what=f"model version {version_id}")
        return Response(VersionOut(version).data)
