"""Evaluation suites over REST, and the evaluations that the server does by them."""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from webapp.accounts.queries import actor_of
from webapp.evaluations import queries, services
from webapp.evaluations.models import Suite
from webapp.registry import queries as registry
from webapp.registry.models import ModelVersion
from webapp.rest.enums import EvaluationState, MetricGoal
from webapp.rest.openapi import listed

METRICS = {"type": "object", "additionalProperties": {"type": "string", "enum": MetricGoal}}
SUITE_FILE = {
    "allOf": [
        {"$ref": "#/components/schemas/JobSpec"},
        {"type": "object", "required": ["metrics"], "properties": {"metrics": METRICS}},
    ]
}


@extend_schema_field({"$ref": "#/components/schemas/JobSpec"})
class SuiteJob(serializers.JSONField):
    """The job of each evaluation, without its model."""


@extend_schema_field(METRICS)
class SuiteMetrics(serializers.JSONField):
    """Metric → which is better."""


class SuiteOut(serializers.Serializer[Any]):
    team = serializers.CharField(source="team_id")
    name = serializers.CharField()
    version = serializers.IntegerField()
    author = serializers.CharField(source="author.username", help_text="As whom its jobs are submitted.")
    created_ms = serializers.IntegerField()
    metrics = SuiteMetrics(source="spec.metrics")
    job = SuiteJob(source="spec.job")


SUITES = listed(SuiteOut)


class EvaluationRunOut(serializers.Serializer[Any]):
    suite = serializers.CharField(source="suite.name")
    suite_version = serializers.IntegerField(source="suite.version")
    state = serializers.ChoiceField(choices=EvaluationState)
    reason = serializers.CharField(help_text="Why it failed, or why its job is not submitted yet.")
    job = serializers.CharField(source="job_id", allow_null=True)
    asked_by = serializers.CharField(
        source="asked_by.username", allow_null=True, default=None, help_text="null: the platform itself."
    )
    asked_ms = serializers.IntegerField()
    ended_ms = serializers.IntegerField(allow_null=True)


class EvaluationRunIn(serializers.Serializer[Any]):
    suite = serializers.CharField(max_length=120)
    again = serializers.BooleanField(
        required=False,
        default=False,
        help_text="Also where this version of the suite has evaluated it already.",
    )


class Suites(APIView):
    @extend_schema(responses=SUITES)
    def get(self, request: Request) -> Response:
        """List the evaluation suites of your teams, each in its newest version."""
        return Response({"results": SuiteOut(queries.suites(actor_of(request).sees), many=True).data})

    @extend_schema(request={"application/json": SUITE_FILE}, responses={201: SuiteOut, 200: SuiteOut})
    def post(self, request: Request) -> Response:
        """Publish the next version of an evaluation suite; what is as the newest makes no new one."""
        if not isinstance(request.data, dict):
            why = "it must be a JSON object with the fields of a suite"
            raise TrainmasterError("request_invalid", what="the body", why=why)
        row, new = services.publish(actor_of(request), dict(request.data))
        return Response(SuiteOut(row).data, status=201 if new else 200)


class OneSuite(APIView):
    @extend_schema(responses=SUITES, operation_id="evaluation_suite_versions_list")
    def get(self, request: Request, team: str, name: str) -> Response:
        """List the versions of an evaluation suite, the newest first."""
        rows: list[Suite] = queries.versions(actor_of(request), team, name)
        return Response({"results": SuiteOut(rows, many=True).data})


class EvaluationRuns(APIView):
    @extend_schema(responses=listed(EvaluationRunOut))
    def get(self, request: Request, team: str, name: str, number: int) -> Response:
        """List the evaluations of a version by the server, the newest first."""
        rows = queries.runs_of(_version(request, team, name, number))
        return Response({"results": EvaluationRunOut(rows, many=True).data})

    @extend_schema(request=EvaluationRunIn, responses={201: EvaluationRunOut, 200: EvaluationRunOut})
    def post(self, request: Request, team: str, name: str, number: int) -> Response:
        """Have the server evaluate a version by the newest version of a suite."""
        version = _version(request, team, name, number)
        body = EvaluationRunIn(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        row, new = services.evaluate(actor_of(request), version, given["suite"], again=given["again"])
        return Response(EvaluationRunOut(row).data, status=201 if new else 200)


def _version(request: Request, team: str, name: str, number: int) -> ModelVersion:
    return registry.numbered(registry.model_for(actor_of(request), team, name), number)
