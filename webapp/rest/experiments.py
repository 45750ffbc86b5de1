from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.base.parsing import whole_number
from webapp.experiments import metric_store, queries


class MetricSummary(serializers.Serializer[Any]):
    value = serializers.FloatField(help_text="the newest")
    step = serializers.IntegerField()
    min = serializers.FloatField()
    max = serializers.FloatField()


class MetricsOut(serializers.Serializer[Any]):
    series = serializers.DictField(
        child=serializers.ListField(
            child=serializers.ListField(
                child=serializers.FloatField(allow_null=True), help_text="step, value, at_ms"
            )
        )
    )
    summary = serializers.DictField(child=MetricSummary())
    parameters = serializers.DictField()


class Metrics(APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter("key", description="one metric; without it, all"),
            OpenApiParameter("after_step", OpenApiTypes.INT),
        ],
        responses={200: MetricsOut},
    )
    def get(self, request: Request, job_id: str) -> Response:
        """Metric values by step: {key: [[step, value, at_ms], …]}, and the summary of each metric."""
        run = queries.run_for(request, job_id)
        wanted = request.query_params.get("key")
        after = request.query_params.get("after_step", "")
        known = [wanted] if wanted else sorted(run.summary)
        found = metric_store.all_series(run.id, wanted, whole_number(after, "after_step") if after else None)
        series = {key: found.get(key, []) for key in {**dict.fromkeys(known), **found}}
        return Response({"series": series, "summary": run.summary, "parameters": run.parameters})
