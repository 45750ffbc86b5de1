"""Gates of models over REST: the policy, results of evaluations, approvals, and the stages that they guard."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.registry import policy_reader
from webapp.accounts.queries import actor_of
from webapp.registry import evidence, gates, queries, services
from webapp.registry.models import Evaluation, ModelVersion
from webapp.rest.enums import MetricGoal, ModelVersionStage, ResultsMeasurer, ResultsSource
from webapp.rest.registry import VersionOut


class ThresholdRule(serializers.Serializer[Any]):
    suite = serializers.CharField(max_length=250)
    metric = serializers.CharField(max_length=250)
    direction = serializers.ChoiceField(choices=MetricGoal, required=False, help_text="Which is better.")
    bound = serializers.FloatField()
    every_slice = serializers.BooleanField(required=False)


class MarginRule(serializers.Serializer[Any]):
    suite = serializers.CharField(max_length=250)
    metric = serializers.CharField(max_length=250)
    direction = serializers.ChoiceField(choices=MetricGoal, required=False, help_text="Which is better.")
    worse_by = serializers.FloatField(
        required=False, help_text="Than production, at the unlucky end of the 95 % interval of the pairs."
    )


class Gate(serializers.Serializer[Any]):
    thresholds = ThresholdRule(many=True, required=False)
    margins = MarginRule(many=True, required=False)
    approvals = serializers.IntegerField(
        required=False, help_text="For production, by others than who registered the version."
    )
    approvers = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="Roles: lead, member."
    )
    measured_by = serializers.ChoiceField(
        choices=ResultsMeasurer, required=False, help_text="server: what people send does not count."
    )
    self_validation = serializers.BooleanField(
        required=False, help_text="A job of the platform found the weights finite and as registered."
    )
    serving_target = serializers.CharField(
        required=False, allow_blank=True, max_length=60, help_text="One of its exports serves this target."
    )
    uncontaminated = serializers.BooleanField(
        required=False, help_text="No file of the evaluation data was trained on."
    )


class EvaluationIn(serializers.Serializer[Any]):
    suite = serializers.CharField(max_length=250)
    lines = serializers.CharField(
        max_length=32_000_000,
        trim_whitespace=False,
        help_text='A line of JSON a sample: {"id": "17", "metrics": {"f1": 0.5}, "slices": {"language": "de"}}; at '
        f"most {gates.MOST_VALUES:,} values, those of slices counted again.",
    )


class EvaluationOut(serializers.Serializer[Any]):
    suite = serializers.CharField()
    samples = serializers.IntegerField(source="sample_count")
    metrics = serializers.DictField(help_text="Metric → mean, low and high (95 %), samples.")
    slices = serializers.DictField(help_text="Slice → the same.")
    evaluated_ms = serializers.IntegerField()
    evaluated_by = serializers.CharField(source="evaluated_by.username")
    measured_by = serializers.SerializerMethodField()
    suite_version = serializers.IntegerField(allow_null=True, help_text="By which the server measured.")
    job = serializers.CharField(source="job_id", allow_null=True, help_text="In which the server measured.")
    contamination = serializers.DictField(
        help_text="Of its data in the training data: how many files are `shared` (null: not known, for this "
        "`problem`), the first of their `paths`, how many `files` were looked for, in which `datasets`."
    )

    @extend_schema_field(serializers.ChoiceField(choices=ResultsSource))
    def get_measured_by(self, row: Evaluation) -> str:
        return "server" if row.by_server else "person"


class ApprovalOut(serializers.Serializer[Any]):
    user = serializers.CharField(source="user.username")
    role = serializers.CharField()
    approved_ms = serializers.IntegerField()
    evidence = serializers.CharField(help_text="Digest of the results that it was given for.")


class Refusals(serializers.Serializer[Any]):
    staging = serializers.ListField(child=serializers.CharField())
    production = serializers.ListField(child=serializers.CharField())


class StandingOut(serializers.Serializer[Any]):
    """How a version stands before the gate of its model."""

    model = serializers.CharField()
    version = serializers.IntegerField()
    stage = serializers.ChoiceField(choices=ModelVersionStage)
    evaluations = EvaluationOut(many=True)
    evidence = serializers.CharField(help_text="Digest of the results that an approval is given for.")
    validation = serializers.DictField(
        help_text="Self-validation of the weights: `problem`, empty where they passed; empty: not tried."
    )
    approvals = ApprovalOut(many=True)
    refused = Refusals(help_text="Every reason against each stage; empty: it may enter.")


class StageIn(serializers.Serializer[Any]):
    stage = serializers.ChoiceField(choices=ModelVersionStage)
    archive_others = serializers.BooleanField(
        required=False, default=False, help_text="Archive the versions that are in the stage now."
    )
    override = serializers.CharField(
        required=False, default="", allow_blank=True, max_length=2000,
        help_text="The reason of a platform admin to let it through all the same; it is recorded.",
    )  # fmt: skip


class ModelGate(APIView):
    @extend_schema(responses=Gate)
    def get(self, request: Request, team: str, name: str) -> Response:
        """Read what versions of a model must have proven."""
        return Response(
            policy_reader.as_mapping(gates.policy_of(queries.model_for(actor_of(request), team, name)))
        )

    @extend_schema(request=Gate, responses=Gate)
    def put(self, request: Request, team: str, name: str) -> Response:
        """Set what versions of a model must have proven; an empty object lets everything through."""
        model = queries.model_for(actor_of(request), team, name)
        given = request.data if isinstance(request.data, dict) else {"body": request.data}
        return Response(policy_reader.as_mapping(gates.set_policy(actor_of(request), model, given)))


class Standing(APIView):
    @extend_schema(responses=StandingOut)
    def get(self, request: Request, team: str, name: str, number: int) -> Response:
        """Read the evaluations and approvals of a version, and why it may not enter a stage."""
        return Response(_standing(_version(request, team, name, number)))


class Evaluations(APIView):
    @extend_schema(request=EvaluationIn, responses={201: EvaluationOut})
    def post(self, request: Request, team: str, name: str, number: int) -> Response:
        """Keep the results of a suite for a version, in place of its earlier ones."""
        version = _version(request, team, name, number)
        body = EvaluationIn(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        row = gates.evaluate(actor_of(request), version, given["suite"], given["lines"].splitlines())
        return Response(EvaluationOut(row).data, status=201)


class Approvals(APIView):
    @extend_schema(
        request=None,
        responses=StandingOut,
        parameters=[
            OpenApiParameter(
                "evidence",
                description="Digest of the results that you saw; refused as stale_version when others have come since.",
            )
        ],
    )
    def put(self, request: Request, team: str, name: str, number: int) -> Response:
        """Approve a version for the results that there are now."""
        version = _version(request, team, name, number)
        gates.approve(actor_of(request), version, request.query_params.get("evidence", ""))
        return Response(_standing(version))

    @extend_schema(request=None, responses={200: StandingOut})
    def delete(self, request: Request, team: str, name: str, number: int) -> Response:
        """Take back your approval of a version."""
        version = _version(request, team, name, number)
        gates.withdraw(actor_of(request), version)
        return Response(_standing(version))


class VersionStage(APIView):
    @extend_schema(request=StageIn, responses=VersionOut)
    def put(self, request: Request, team: str, name: str, number: int) -> Response:
        """Move a version to a stage, through the gate of its model."""
        version = _version(request, team, name, number)
        body = StageIn(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        row = services.set_stage(
            actor_of(request), version, given["stage"],
            archive_others=given["archive_others"], override=given["override"],
        )  # fmt: skip
        return Response(VersionOut(row).data)


def _version(request: Request, team: str, name: str, number: int) -> ModelVersion:
    return queries.numbered(queries.model_for(actor_of(request), team, name), number)


def _standing(version: ModelVersion) -> dict[str, Any]:
    evaluations = evidence.evaluations(version)
    return {
        "model": str(version.model), "version": version.version, "stage": version.stage,
        "evaluations": EvaluationOut(evaluations, many=True).data,
        "evidence": evidence.digest(version, gates.policy_of(version.model)),
        "validation": version.validation,
        "approvals": ApprovalOut(version.approvals.select_related("user"), many=True).data,
        "refused": {stage.value: reasons for stage, reasons in gates.standing(version).items()},
    }  # fmt: skip
