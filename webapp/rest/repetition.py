"""Jobs that repeat others, over REST."""

import math
from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from platform_core.experiments.reproduction import SUBJECTS, TOLERANCE, Agreement
from webapp.accounts.queries import actor_of
from webapp.experiments import reproduction
from webapp.jobs import queries, repetition
from webapp.rest.job_serializers import JobOut


class ChangeOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    before = serializers.CharField(allow_null=True)
    after = serializers.CharField(allow_null=True)


class SubjectOut(serializers.Serializer[Any]):
    name = serializers.ChoiceField(choices=SUBJECTS)
    known = serializers.BooleanField(help_text="Whether both runs, or neither, have said anything of it.")
    changes = ChangeOut(many=True)


class MetricOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    before = serializers.FloatField(
        allow_null=True, help_text="Last value of the original; null if not finite."
    )
    after = serializers.FloatField(allow_null=True)
    deviation = serializers.FloatField(allow_null=True, help_text="Relative to the larger magnitude.")
    agreement = serializers.ChoiceField(
        choices=[agreement.value for agreement in Agreement],
        help_text=f"agrees: within {TOLERANCE:.0%}; missing: only one of the two has it.",
    )


class ReproductionOut(serializers.Serializer[Any]):
    repeats = serializers.CharField(source="original.id", help_text="Id of the original job.")
    sentence = serializers.CharField()
    subjects = SubjectOut(many=True)
    metrics = MetricOut(many=True)


class JobAgain(APIView):
    @extend_schema(
        request=None,
        responses={201: JobOut},
        parameters=[
            OpenApiParameter(
                "Idempotency-Key", location="header", description="A repeated key returns the job it made."
            )
        ],
    )
    def post(self, request: Request, job_id: str) -> Response:
        """Submit a job once more as it was: the same code, data, image, settings and seed."""
        original = queries.job_for(request, job_id)
        key = request.headers.get("Idempotency-Key")
        return Response(JobOut(repetition.run_again(actor_of(request), original.id, key)).data, status=201)


class JobReproduction(APIView):
    @extend_schema(responses={200: ReproductionOut})
    def get(self, request: Request, job_id: str) -> Response:
        """Compare a job with the one that it repeats: what they are made of, and whether their metrics agree."""
        found = reproduction.of_job(actor_of(request), queries.job_for(request, job_id))
        if found is None:
            raise TrainmasterError("not_found", what=f"original that {job_id} repeats")
        rows = [
            {**asdict(row), "before": _finite(row.before), "after": _finite(row.after)}
            for row in found.metrics
        ]
        return Response(ReproductionOut({**_fields(found), "metrics": rows}).data)


def _fields(found: reproduction.Reproduction) -> dict[str, Any]:
    return {"original": found.original, "sentence": found.sentence, "subjects": found.subjects}


def _finite(value: float | None) -> float | None:
    """JSON has no NaN."""
    return value if value is not None and math.isfinite(value) else None
