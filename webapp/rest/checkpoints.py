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
    kept = serializers.BooleanField(help_text="false: retention has deleted its bytes")
    damaged = serializers.CharField(
        allow_blank=True, help_text="why it cannot be restored; empty: nobody found fault"
    )


class CheckpointsOut(serializers.Serializer[Any]):
    results = CheckpointOut(many=True)
    saving = serializers.DictField(
        allow_null=True,
        help_text="how often it saves, what that costs and what is advised; null before the first save",
    )


class Checkpoints(APIView):
    @extend_schema(responses={200: CheckpointsOut})
    def get(self, request: Request, job_id: str) -> Response:
        """The checkpoints of a job, highest step first; and how often it saves, what that costs, and what is advised.

        `damaged` says why one cannot be restored; it is empty as long as nobody found anything wrong.
        `saving` is null before the first save, and what is not known in it. Costs are parts of the wall time.
        """
        job = jobs.find(job_id)
        if job is None:
            raise TrainmasterError("not_found", what=f"job {job_id}")
        permissions.require(actor_of(request), "job.view", job.team_id, what=f"job {job_id}")
        found = queries.of_job(job_id)
        told = advice.of_job(job, found)
        rows = [
            {
                "id": row.id, "step": row.step, "attempt": row.attempt,
                "metrics": row.metrics, "saved_ms": row.saved_ms,
                "manifest": row.manifest_id, "bytes": row.manifest.total_bytes, "kept": row.deleted_ms is None,
                "damaged": row.damaged,
            }
            for row in found
        ]  # fmt: skip
        return Response({"results": rows, "saving": asdict(told) if told else None})
