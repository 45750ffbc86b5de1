"""The parallelism planner over REST."""

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.jobs.fields import given_fields, plain_fields
from platform_core.jobs.parallel import Parallel
from platform_core.jobs.transformer import Transformer
from platform_core.parallelism.advice import Ranked, Refused, ScalePoint, advise
from platform_core.parallelism.calibration import Calibration
from platform_core.parallelism.request import SCHEMA, PlanRequest, parse, transformer_of
from webapp.accounts.permissions import require
from webapp.accounts.queries import actor_of
from webapp.experiments import predictions
from webapp.experiments.models import Prediction
from webapp.experiments.scaling import scaling
from webapp.quotas import queries as quotas


class TrainingOut(serializers.Serializer[Any]):
    steps = serializers.IntegerField()
    duration_ms = serializers.IntegerField()
    cost_micro_dollars = serializers.IntegerField(help_text="0 where the GPU type has no price.")


class LayoutPlanOut(serializers.Serializer[Any]):
    title = serializers.CharField(help_text="Such as FSDP 64 x TP 8.")
    layout = serializers.DictField(
        help_text="Degrees of parallelism, micro-batch, ZeRO stage, recomputation."
    )
    parallel = serializers.DictField(help_text="The same as `parallel` of a job file.")
    transformer = serializers.DictField(
        help_text="The model and the rest of the layout, for `transformer` there."
    )
    step_ms = serializers.IntegerField()
    low_ms = serializers.IntegerField(help_text="Nine steps of ten lie between low_ms and high_ms.")
    high_ms = serializers.IntegerField()
    tokens_per_second = serializers.IntegerField()
    mfu = serializers.FloatField()
    bubble_share = serializers.FloatField(help_text="Of the step that the pipeline waits.")
    step_seconds = serializers.DictField(
        child=serializers.FloatField(), help_text="By part; communication only where nothing hides it."
    )
    memory_bytes = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="By part, of the fullest pipeline stage.",
    )
    memory_low_bytes = serializers.IntegerField(
        help_text="Nine of ten published figures lie between this and memory_high_bytes."
    )
    memory_high_bytes = serializers.IntegerField()
    may_not_fit = serializers.BooleanField(help_text="memory_high_bytes is more than the GPU has.")
    limited_by = serializers.CharField()
    run = TrainingOut(allow_null=True, help_text="Of all tokens; null unless tokens_billions is given.")


class CalibrationOut(serializers.Serializer[Calibration]):
    factor = serializers.FloatField(
        help_text="Predicted seconds are multiplied by it; 1 before enough was measured."
    )
    low = serializers.FloatField(help_text="Nine of ten jobs took low to high of the calibrated prediction.")
    high = serializers.FloatField()
    rows = serializers.IntegerField(help_text="Jobs of the GPU type that were measured here.")
    sentence = serializers.CharField()


class ScalePointOut(serializers.Serializer[ScalePoint]):
    gpus = serializers.IntegerField()
    title = serializers.CharField()
    tokens_per_second = serializers.IntegerField()
    mfu = serializers.FloatField()
    efficiency = serializers.FloatField(
        help_text="Tokens a second and GPU, relative to the best of the curve."
    )


class RefusedOut(serializers.Serializer[Refused]):
    title = serializers.CharField()
    micro_batch = serializers.IntegerField()
    sentence = serializers.CharField(help_text="What it needs, and what would make it fit.")


class AdviceOut(serializers.Serializer[Any]):
    sentence = serializers.CharField()
    parameters = serializers.IntegerField()
    active_parameters = serializers.IntegerField(help_text="Those that one token passes.")
    plans = LayoutPlanOut(many=True, help_text="From the fastest on.")
    refusal = serializers.CharField(help_text="Why there is no plan; empty where there is one.")
    too_large = RefusedOut(
        many=True, help_text="Layouts that would be faster but do not fit, the nearest to fitting first."
    )
    looked_at = serializers.IntegerField(help_text="Layouts computed in full.")
    pruned = serializers.IntegerField(help_text="Layouts that a lower bound ruled out.")
    calibration = CalibrationOut(help_text="Of this cluster, for the GPU type.")
    scaling = ScalePointOut(many=True, required=False, help_text="Only with ?scaling=1.")
    scaling_left = serializers.IntegerField(
        required=False, help_text="Points that are not planned yet: send the same again for more of them."
    )


class ParallelismPlans(APIView):
    @extend_schema(request={"application/json": SCHEMA}, responses={200: AdviceOut})
    def post(self, request: Request) -> Response:
        """Plan the parallelism of a training: ranked layouts with time, memory, cost and what limits them.

        `?scaling=1` adds the fastest layout on 8 to 4,096 GPUs, as many as can be planned in a few seconds.
        """
        require(actor_of(request), "cluster.view")
        asked = parse(request.data)
        learnt = predictions.calibration(asked.gpu_type)
        found = advise(asked, quotas.price(asked.gpu_type), learnt)
        body = {
            **asdict(found),
            "plans": [_plan(ranked, asked) for ranked in found.plans],
            "calibration": _calibration(learnt),
        }
        if request.query_params.get("scaling") == "1":
            curve = scaling(asked, learnt)
            body |= {"scaling": curve.points, "scaling_left": curve.left}
        return Response(AdviceOut(body).data)


class LearntOut(serializers.Serializer[Any]):
    gpu_type = serializers.CharField()
    step = CalibrationOut(help_text="Of the time of a step.")
    memory = CalibrationOut(
        allow_null=True, help_text="Of the memory of a GPU; null where none was measured."
    )


class PredictionOut(serializers.Serializer[Prediction]):
    job = serializers.CharField(source="run_id")
    name = serializers.CharField(source="run.name")
    team = serializers.CharField(source="run.experiment.team_id")
    gpu_type = serializers.CharField()
    gpus = serializers.IntegerField()
    layout = serializers.CharField()
    predicted_seconds = serializers.FloatField(help_text="Of a step, not calibrated.")
    measured_seconds = serializers.FloatField(help_text="Of a step, without waiting for data.")
    predicted_bytes = serializers.IntegerField(help_text="Of the fullest GPU.")
    measured_bytes = serializers.IntegerField(
        allow_null=True, help_text="Null where no rank has measured it."
    )
    at_ms = serializers.IntegerField()


class PredictionsOut(serializers.Serializer[Any]):
    learnt = LearntOut(many=True, help_text="By GPU type, from the jobs of all teams.")
    results = PredictionOut(many=True, help_text="Of your teams, the newest first; at most 200.")


class Predictions(APIView):
    @extend_schema(
        parameters=[OpenApiParameter("gpu_type", str, description="Only jobs of this type.")],
        responses=PredictionsOut,
    )
    def get(self, request: Request) -> Response:
        """Compare predicted and measured steps of jobs with a model shape, and read what was learnt of them."""
        actor = actor_of(request)
        require(actor, "cluster.view")
        found = [
            {
                "gpu_type": each.gpu_type,
                "step": _calibration(each.step),
                "memory": each.memory and _calibration(each.memory),
            }
            for each in predictions.learnt()
        ]
        rows = predictions.compared(actor.sees, request.query_params.get("gpu_type", ""))
        return Response(PredictionsOut({"learnt": found, "results": rows}).data)


def _calibration(learnt: Calibration) -> dict[str, Any]:
    return asdict(learnt) | {"sentence": learnt.sentence}


def _plan(ranked: Ranked, asked: PlanRequest) -> dict[str, Any]:
    plan = ranked.plan
    return {
        "title": ranked.title,
        "layout": asdict(plan.layout),
        "parallel": given_fields(Parallel, plain_fields(plan.layout.parallel)),
        "transformer": given_fields(Transformer, plain_fields(transformer_of(asked, plan.layout))),
        "step_ms": plan.step_ms,
        "low_ms": plan.low_ms,
        "high_ms": plan.high_ms,
        "tokens_per_second": plan.tokens_per_second,
        "mfu": plan.mfu,
        "bubble_share": plan.bubble_share,
        "step_seconds": dict(plan.step.parts),
        "memory_bytes": {**asdict(plan.memory), "total": plan.memory.total},
        "memory_low_bytes": plan.memory.low,
        "memory_high_bytes": plan.memory.high,
        "may_not_fit": plan.is_tight,
        "limited_by": ranked.limited_by,
        "run": ranked.run and asdict(ranked.run),
    }
