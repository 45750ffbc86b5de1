"""The efficiency of a run over REST."""

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.queries import actor_of
from webapp.experiments import efficiency, queries


def _number(help_text: str = "") -> serializers.FloatField:
    return serializers.FloatField(allow_null=True, help_text=help_text)


class BreakdownOut(serializers.Serializer[Any]):
    """Shares of the wall time, which add up to 1."""

    compute = serializers.FloatField(help_text="What is left of the others.")
    communication = _number("Null: not measured, and a part of compute.")
    data = serializers.FloatField(help_text="Waiting for the next batch.")
    checkpoint = serializers.FloatField()
    evaluation = serializers.FloatField()


class RankOut(serializers.Serializer[Any]):
    rank = serializers.IntegerField()
    step_seconds = serializers.FloatField()
    own_seconds = serializers.FloatField(help_text="Of a step, without waiting in collectives.")
    data = serializers.FloatField()
    evaluation = serializers.FloatField()
    checkpoint = serializers.FloatField()
    communication = _number()
    mfu = _number()
    flops_per_second = _number()
    samples_per_second = _number()
    tokens_per_second = _number()
    memory_bytes = _number()


class StragglerOut(serializers.Serializer[Any]):
    rank = serializers.IntegerField()
    node = serializers.CharField(help_text="Hostname; empty where it is not known.")
    times = serializers.FloatField(help_text="Its own time of a step over the median.")


class TargetOut(serializers.Serializer[Any]):
    low = serializers.FloatField()
    high = serializers.FloatField()


class AdviceOut(serializers.Serializer[Any]):
    code = serializers.CharField()
    title = serializers.CharField()
    evidence = serializers.CharField()
    remedy = serializers.CharField()
    gain = _number("Share of the time of a step that it may save, at most.")


class EfficiencyOut(serializers.Serializer[Any]):
    breakdown = BreakdownOut(allow_null=True, help_text="Null before anything was measured.")
    step_seconds = _number()
    samples_per_second = _number("Of all ranks together.")
    tokens_per_second = _number("Of all ranks together.")
    flops_per_second = _number("Of all ranks together.")
    mfu = _number("0 to 1; null where the peak of its GPUs is not known.")
    target = TargetOut(allow_null=True, help_text="MFU that a well-tuned run of this size reaches.")
    utilisation = _number("0 to 1, mean of its slots.")
    memory_bytes = _number("Most of any rank.")
    ranks = RankOut(many=True)
    stragglers = StragglerOut(many=True)
    slow_nodes = serializers.ListField(
        child=serializers.CharField(), help_text="All ranks of these are slow."
    )
    advice = AdviceOut(many=True)


class RunEfficiency(APIView):
    @extend_schema(responses=EfficiencyOut)
    def get(self, request: Request, run_id: str) -> Response:
        """Read how well a run, or the run of a job, uses its hardware, and what limits it."""
        found = efficiency.of_run(queries.find_run(actor_of(request), run_id))
        body = asdict(found) | {
            "ranks": [asdict(rank) | {"own_seconds": rank.own_seconds} for rank in found.ranks]
        }
        return Response(EfficiencyOut(body).data)
