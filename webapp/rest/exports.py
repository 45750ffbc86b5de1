"""Serving targets of teams over REST, and the exports of a version: what was measured, and which target they serve."""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.registry import export_report
from webapp.accounts.queries import actor_of
from webapp.registry import exports, queries
from webapp.registry.exports import Verdict
from webapp.registry.models import ExportMeasurement, ModelVersion, ServingTarget
from webapp.rest.bodies import sent
from webapp.rest.enums import EvaluationState, ExportDtype, ExportFormat
from webapp.rest.openapi import listed


class ServingConstraints(serializers.Serializer[Any]):
    """What is left out, 0 or empty asks nothing."""

    max_latency_ms = serializers.FloatField(required=False, help_text="Of one row, 95th percentile.")
    max_memory_bytes = serializers.IntegerField(required=False, help_text="Of the process that serves it.")
    max_difference = serializers.FloatField(
        required=False,
        help_text="The largest absolute one from the original; else the tolerance of the export.",
    )
    max_opset = serializers.IntegerField(required=False, help_text="Of ONNX.")
    dtype = serializers.ChoiceField(choices=ExportDtype, required=False)
    formats = serializers.ListField(child=serializers.ChoiceField(choices=ExportFormat), required=False)
    gpu_type = serializers.CharField(
        required=False,
        help_text="Of the slots that serve: exports are measured there by a job of the platform.",
    )


class ServingTargetOut(serializers.Serializer[Any]):
    team = serializers.CharField(source="team_id")
    name = serializers.CharField()
    constraints = ServingConstraints()
    changed_ms = serializers.IntegerField()


class ExportDifferenceOut(serializers.Serializer[Any]):
    """The largest over all outputs of all samples; null: not a number."""

    absolute = serializers.FloatField(allow_null=True)
    relative = serializers.FloatField(allow_null=True)
    of_tolerance = serializers.FloatField(allow_null=True, help_text="At most 1 is within the tolerance.")


class ExportOut(serializers.Serializer[Any]):
    format = serializers.ChoiceField(choices=ExportFormat)
    file = serializers.CharField()
    sha256 = serializers.CharField()
    dtype = serializers.ChoiceField(choices=ExportDtype)
    difference = ExportDifferenceOut(allow_null=True)
    p50_ms = serializers.FloatField(allow_null=True)
    p95_ms = serializers.FloatField(allow_null=True)
    memory_bytes = serializers.IntegerField(allow_null=True)
    opset = serializers.IntegerField(allow_null=True)
    problem = serializers.CharField(help_text="Why it does not count; empty: it does.")


class ExportToleranceOut(serializers.Serializer[Any]):
    absolute = serializers.FloatField()
    relative = serializers.FloatField()


class ExportReportOut(serializers.Serializer[Any]):
    samples = serializers.IntegerField()
    device = serializers.CharField(help_text="On which it was measured.")
    tolerance = ExportToleranceOut()
    exports = ExportOut(many=True)


class ExportMeasurementOut(serializers.ModelSerializer[ExportMeasurement]):
    """By a job on a slot of the target."""

    job = serializers.CharField(source="job_id", allow_null=True)
    state = serializers.ChoiceField(choices=EvaluationState)
    report = ExportReportOut(allow_null=True)

    class Meta:
        model = ExportMeasurement
        fields = ("gpu_type", "number", "state", "reason", "job", "report", "asked_ms", "ended_ms")


class TargetVerdictOut(serializers.Serializer[Any]):
    target = serializers.CharField(source="target.name")
    passed = serializers.SerializerMethodField()
    format = serializers.CharField(
        source="export.format", default=None, allow_null=True, help_text="The fastest that passes."
    )
    reasons = serializers.ListField(child=serializers.CharField())
    measurement = ExportMeasurementOut(
        allow_null=True, help_text="null: the target names no GPU type, or nothing was measured there."
    )

    @extend_schema_field(serializers.BooleanField())
    def get_passed(self, row: Verdict) -> bool:
        return row.export is not None


class ExportsToMeasure(serializers.Serializer[Any]):
    target = serializers.CharField(
        required=False,
        max_length=60,
        help_text="Serving target on whose slots a job measures the exports anew.",
    )


class VersionExportsOut(serializers.Serializer[Any]):
    read_ms = serializers.IntegerField(
        allow_null=True, help_text="null: it has no report, or it was not read yet."
    )
    problem = serializers.CharField(help_text="Why its report cannot be read.")
    report = ExportReportOut(allow_null=True)
    targets = TargetVerdictOut(many=True)


class ServingTargets(APIView):
    @extend_schema(responses=listed(ServingTargetOut))
    def get(self, request: Request) -> Response:
        """List the serving targets of your teams."""
        rows = exports.targets(actor_of(request).sees)
        return Response({"results": ServingTargetOut(rows, many=True).data})


class OneServingTarget(APIView):
    @extend_schema(request=ServingConstraints, responses=ServingTargetOut)
    def put(self, request: Request, team: str, name: str) -> Response:
        """Set what exports for a serving target must meet."""
        given = request.data if isinstance(request.data, dict) else {"body": request.data}
        return Response(ServingTargetOut(exports.set_target(actor_of(request), team, name, given)).data)

    @extend_schema(request=None, responses={204: None})
    def delete(self, request: Request, team: str, name: str) -> Response:
        """Delete a serving target."""
        exports.delete_target(actor_of(request), team, name)
        return Response(status=204)


class Exports(APIView):
    @extend_schema(responses=VersionExportsOut)
    def get(self, request: Request, team: str, name: str, number: int) -> Response:
        """Read what was measured of the exports of a version, and which serving targets they serve."""
        return Response(_exports(_version(request, team, name, number)))

    @extend_schema(request=ExportsToMeasure, responses={202: VersionExportsOut})
    def post(self, request: Request, team: str, name: str, number: int) -> Response:
        """Read the export.json of a version again, or measure its exports for one target, in the background."""
        version = _version(request, team, name, number)
        if target := sent(ExportsToMeasure, request).get("target"):
            exports.measure(actor_of(request), version, target)
        else:
            exports.read_again(actor_of(request), version)
        return Response(_exports(version), status=202)


def _version(request: Request, team: str, name: str, number: int) -> ModelVersion:
    return queries.numbered(queries.model_for(actor_of(request), team, name), number)


def _exports(version: ModelVersion) -> dict[str, Any]:
    rows: list[ServingTarget] = list(exports.targets([version.model.team_id]))
    report = exports.report_of(version)
    return {
        "read_ms": version.exports.get("at_ms"),
        "problem": version.exports.get("problem", ""),
        "report": export_report.as_mapping(report) if report else None,
        "targets": TargetVerdictOut(exports.verdicts(version, rows), many=True).data,
    }
