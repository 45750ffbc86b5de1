"""What people write about models and versions over REST: descriptions, tags, aliases, cards; and comparisons."""

from typing import Any

from django.db import transaction
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from webapp.accounts.queries import actor_of
from webapp.lineage import cards
from webapp.registry import comparison, queries, services
from webapp.registry.models import Model, ModelVersion
from webapp.rest.bodies import sent
from webapp.rest.registry import SignatureIn, VersionOut

TAGS_HELP = "Name → value; null takes the tag away, names that are left out keep theirs."


class ModelEdit(serializers.Serializer[Any]):
    description = serializers.CharField(required=False, allow_blank=True, max_length=100_000)
    tags = serializers.DictField(
        child=serializers.CharField(allow_null=True, allow_blank=True), required=False, help_text=TAGS_HELP
    )


class VersionEdit(ModelEdit):
    licence = serializers.CharField(
        required=False, allow_blank=True, max_length=120, help_text="Such as MIT."
    )
    card = serializers.CharField(
        required=False, allow_blank=True, max_length=100_000,
        help_text="Markdown that is added to its card: what it is for, and where it must not be used.",
    )  # fmt: skip
    signature = SignatureIn(
        required=False, help_text="Its inputs and outputs; an empty object: those of its exports."
    )


class ModelOut(serializers.ModelSerializer[Model]):
    team = serializers.CharField(source="team_id", read_only=True)
    aliases = serializers.SerializerMethodField(help_text="Alias → version.")
    versions = serializers.SerializerMethodField(help_text="Their numbers, the newest first.")

    class Meta:
        model = Model
        fields = ("team", "name", "description", "tags", "aliases", "versions", "created_ms", "changed_ms")

    @extend_schema_field(serializers.DictField(child=serializers.IntegerField()))
    def get_aliases(self, row: Model) -> dict[str, int]:
        rows = row.aliases.order_by("name").values_list("name", "version__version")
        return dict(rows)

    @extend_schema_field(serializers.ListField(child=serializers.IntegerField()))
    def get_versions(self, row: Model) -> list[int]:
        return [version.version for version in queries.versions(row)]


class AliasIn(serializers.Serializer[Any]):
    version = serializers.IntegerField(min_value=1)


class ModelCardOut(serializers.Serializer[Any]):
    markdown = serializers.CharField(help_text="What is known of the version, and what people added.")
    licence = serializers.CharField()
    card = serializers.CharField(help_text="What people added.")


class ComparedLine(serializers.Serializer[Any]):
    name = serializers.CharField()
    before = serializers.CharField()
    after = serializers.CharField()
    change = serializers.CharField()


class ComparedSection(serializers.Serializer[Any]):
    title = serializers.CharField()
    lines = ComparedLine(many=True)


class VersionComparisonOut(serializers.Serializer[Any]):
    before = serializers.IntegerField(
        allow_null=True, help_text="null: the model has fewer than two versions."
    )
    after = serializers.IntegerField(allow_null=True)
    sections = ComparedSection(many=True)


class OneModel(APIView):
    @extend_schema(responses=ModelOut)
    def get(self, request: Request, team: str, name: str) -> Response:
        """Read a model: its description, tags and aliases."""
        return Response(ModelOut(queries.model_for(actor_of(request), team, name)).data)

    @extend_schema(request=ModelEdit, responses=ModelOut)
    def patch(self, request: Request, team: str, name: str) -> Response:
        """Change the description and tags of a model."""
        model = queries.model_for(actor_of(request), team, name)
        _edit(request, model, sent(ModelEdit, request))
        return Response(ModelOut(queries.model_for(actor_of(request), team, name)).data)


class OneVersion(APIView):
    @extend_schema(responses=VersionOut)
    def get(self, request: Request, team: str, name: str, number: int) -> Response:
        """Read a version of a model."""
        return Response(VersionOut(_version(request, team, name, number)).data)

    @extend_schema(request=VersionEdit, responses=VersionOut)
    def patch(self, request: Request, team: str, name: str, number: int) -> Response:
        """Change the description, tags, licence, card and signature of a version."""
        _edit(request, _version(request, team, name, number), sent(VersionEdit, request))
        return Response(VersionOut(_version(request, team, name, number)).data)


class Alias(APIView):
    @extend_schema(request=AliasIn, responses=ModelOut)
    def put(self, request: Request, team: str, name: str, alias: str) -> Response:
        """Give a version of a model this alias; champion and production ask its gate."""
        model = queries.model_for(actor_of(request), team, name)
        version = queries.numbered(model, sent(AliasIn, request)["version"])
        services.set_alias(actor_of(request), version, alias)
        return Response(ModelOut(model).data)

    @extend_schema(request=None, responses={200: ModelOut})
    def delete(self, request: Request, team: str, name: str, alias: str) -> Response:
        """Take an alias away; one that the model does not have is no error."""
        model = queries.model_for(actor_of(request), team, name)
        services.delete_alias(actor_of(request), model, alias)
        return Response(ModelOut(model).data)


class Card(APIView):
    @extend_schema(responses=ModelCardOut)
    def get(self, request: Request, team: str, name: str, number: int) -> Response:
        """Read the card of a version: its lineage, metrics, evaluations and exports, with what people added."""
        version = _version(request, team, name, number)
        markdown = cards.model_card(actor_of(request), version)
        return Response({"markdown": markdown, "licence": version.licence, "card": version.card})


class Comparison(APIView):
    @extend_schema(
        responses=VersionComparisonOut,
        parameters=[
            OpenApiParameter("a", int, description="Version; by default the one in production."),
            OpenApiParameter("b", int, description="Version; by default the newest one."),
        ],
    )
    def get(self, request: Request, team: str, name: str) -> Response:
        """Compare two versions: metrics, evaluation results, formats, size and latency, data and configuration."""
        model = queries.model_for(actor_of(request), team, name)
        numbers = [_number(request, field) for field in ("a", "b")]
        pair = comparison.pair(model, queries.versions(model), *numbers)
        found = {
            "before": pair[0].version if pair else None,
            "after": pair[1].version if pair else None,
            "sections": comparison.sections(pair) if pair else (),
        }
        return Response(VersionComparisonOut(found).data)


@transaction.atomic
def _edit(request: Request, row: Model | ModelVersion, given: dict[str, Any]) -> None:
    actor, fields = actor_of(request), dict(given)
    tags = fields.pop("tags", {})
    if "description" in fields:
        services.describe(actor, row, fields.pop("description"))
    if gone := [name for name, value in tags.items() if value is None]:
        services.delete_tags(actor, row, gone)
    if kept := {name: value for name, value in tags.items() if value is not None}:
        services.set_tags(actor, row, kept)
    if isinstance(row, ModelVersion):
        services.fill_card(actor, row, **fields)


def _version(request: Request, team: str, name: str, number: int) -> ModelVersion:
    return queries.numbered(queries.model_for(actor_of(request), team, name), number)


def _number(request: Request, field: str) -> int | None:
    text = request.query_params.get(field, "")
    if text and not (text.isdecimal() and len(text) < 10):
        raise TrainmasterError("request_invalid", what=field, why="it must be the number of a version")
    return int(text) if text else None
