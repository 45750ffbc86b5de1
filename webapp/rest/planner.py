"""The parallelism planner over REST."""

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.jobs.fields import given_fields, plain_fields
from platform_core.jobs.parallel import Parallel
from platform_core.parallelism.advice import Ranked, ScalePoint, advise, scaling
from platform_core.parallelism.request import SCHEMA, parse
from webapp.accounts.permissions import require
from webapp.accounts.queries import actor_of
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
        child=serializers.IntegerField(), help_text="By part, of the fullest pipeline stage."
    )
    limited_by = serializers.CharField()
    run = TrainingOut(allow_null=True, help_text="Of all tokens; null unless tokens_billions is given.")


class ScalePointOut(serializers.Serializer[ScalePoint]):
    gpus = serializers.IntegerField()
    title = serializers.CharField()
    tokens_per_second = serializers.IntegerField()
    mfu = serializers.FloatField()
    efficiency = serializers.FloatField(
        help_text="Tokens a second and GPU, relative to the best of the curve."
    )


class AdviceOut(serializers.Serializer[Any]):
    sentence = serializers.CharField()
    parameters = serializers.IntegerField()
    active_parameters = serializers.IntegerField(help_text="Those that one token passes.")
    plans = LayoutPlanOut(many=True, help_text="From the fastest on.")
    refusal = serializers.CharField(help_text="Why the fastest of the layouts that do not fit does not.")
    looked_at = serializers.IntegerField(help_text="Layouts computed in full.")
    pruned = serializers.IntegerField(help_text="Layouts that a lower bound ruled out.")
    scaling = ScalePointOut(many=True, required=False, help_text="Only with ?scaling=1.")


class ParallelismPlans(APIView):
    @extend_schema(request={"application/json": SCHEMA}, responses={200: AdviceOut})
    def post(self, request: Request) -> Response:
        """Plan the parallelism of a training: ranked layouts with time, memory, cost and what limits them.

        `?scaling=1` adds the fastest layout on 8 to 4,096 GPUs.
        """
        require(actor_of(request), "cluster.view")
        asked = parse(request.data)
        found = advise(asked, quotas.price(asked.gpu_type))
        body = {**asdict(found), "plans": [_plan(ranked) for ranked in found.plans]}
        if request.query_params.get("scaling") == "1":
            body["scaling"] = [asdict(point) for point in scaling(asked)]
        return Response(AdviceOut(body).data)


def _plan(ranked: Ranked) -> dict[str, Any]:
    plan = ranked.plan
    return {
        "title": ranked.title,
        "layout": asdict(plan.layout),
        "parallel": given_fields(Parallel, plain_fields(plan.layout.parallel)),
        "step_ms": plan.step_ms,
        "low_ms": plan.low_ms,
        "high_ms": plan.high_ms,
        "tokens_per_second": plan.tokens_per_second,
        "mfu": plan.mfu,
        "bubble_share": plan.bubble_share,
        "step_seconds": dict(plan.step.parts),
        "memory_bytes": {**asdict(plan.memory), "total": plan.memory.total},
        "limited_by": ranked.limited_by,
        "run": ranked.run and asdict(ranked.run),
    }
