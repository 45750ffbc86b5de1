"""The checkpoints of a job over REST."""

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from webapp.accounts import permissions
from webapp.accounts.queries import actor_of
from webapp.checkpoints import advice, queries
from webapp.jobs import queries as jobs


class CheckpointOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    step = serializers.IntegerField()
    attempt = serializers.IntegerField()
    metrics = serializers.DictField()
    saved_ms = serializers.IntegerField()
    manifest = serializers.CharField()
    bytes = serializers.IntegerField()
    kept = serializers.BooleanField(help_text="false: retention deleted its files.")
    damaged = serializers.CharField(
        allow_blank=True, help_text="Why it cannot be restored; empty: no damage is known."
    )


class CheckpointsOut(serializers.Serializer[Any]):
    results = CheckpointOut(many=True)
    saving = serializers.DictField(
        allow_null=True,
        help_text="Interval and cost of saving, and the advised interval; null before the first save.",
    )


class Checkpoints(APIView):
    @extend_schema(responses={200: CheckpointsOut})
    def get(self, request: Request, job_id: str) -> Response:
        """List the checkpoints of a job, highest step first, with the interval and the cost of saving.

        Costs in `saving` are fractions of the wall time; unknown values are null.
        """
        job = jobs.find(job_id)
        if job is None:
            raise TrainmasterError("not_found", what=f"job {job_id}")
        permissions.require(actor_of(request), "job.view", job.team_id, what=f"job {job_id}")
        checkpoints = queries.of_job(job_id)
        saving = advice.of_job(job, checkpoints)
        rows = [
            {
                "id": row.id, "step": row.step, "attempt": row.attempt,
                "metrics": row.metrics, "saved_ms": row.saved_ms,
                "manifest": row.manifest_id, "bytes": row.manifest.total_bytes, "kept": row.deleted_ms is None,
                "damaged": row.damaged,
            }
            for row in checkpoints
        ]  # fmt: skip
        return Response({"results": rows, "saving": asdict(saving) if saving else None})
