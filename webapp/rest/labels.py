"""Delayed labels of an endpoint, and how good its answers were."""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from platform_core.json_values import storable
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.rest.openapi import listed
from webapp.serving import queries, services


@extend_schema_field({"type": "object", "additionalProperties": {}})
class LabelsField(serializers.JSONField):
    """Request id → what should have been answered: a number, a text, a list of numbers, or the number of a class."""


class LabelsIn(serializers.Serializer[Any]):
    labels = LabelsField(help_text="By the `X-Request-Id` of the answer; at most 10,000.")

    def validate_labels(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise serializers.ValidationError("it must be an object: request id → label")
        return storable(value)


class LabelsOut(serializers.Serializer[Any]):
    joined = serializers.IntegerField()
    unknown = serializers.ListField(child=serializers.CharField(), help_text="Not sampled, or forgotten.")
    other_shape = serializers.ListField(
        child=serializers.CharField(), help_text="Their labels are shaped otherwise than the answers."
    )


class OnlineQualityOut(serializers.Serializer[Any]):
    version = serializers.IntegerField()
    window = serializers.CharField(help_text="By the time of the requests.")
    answers = serializers.IntegerField(help_text="That were sampled.")
    labelled = serializers.IntegerField()
    accuracy = serializers.FloatField(allow_null=True)
    error = serializers.FloatField(allow_null=True, help_text="Mean absolute error.")


class Labels(APIView):
    @extend_schema(request=LabelsIn, responses=LabelsOut)
    def post(self, request: Request, team: str, name: str) -> Response:
        """Send what sampled requests should have been answered; a later label takes the place of an earlier one."""
        body = LabelsIn(data=request.data)
        body.is_valid(raise_exception=True)
        joined = services.label(actor_of(request), team, name, body.validated_data["labels"])
        return Response(LabelsOut(joined).data)


class OnlineQuality(APIView):
    @extend_schema(responses=listed(OnlineQualityOut))
    def get(self, request: Request, team: str, name: str) -> Response:
        """Read how good the answers were that have a label, by version and window."""
        row = queries.find(team, name, actor_of(request).sees)
        if row is None:
            raise TrainmasterError("not_found", what=f"endpoint {name} in team {team}")
        lines = [
            {
                "version": version, "window": window, "answers": one.answers, "labelled": one.labelled,
                "accuracy": one.accuracy, "error": one.error,
            }
            for version, window, one in queries.online_quality(row, now_ms())
        ]  # fmt: skip
        return Response({"results": OnlineQualityOut(lines, many=True).data})
