"""The recoveries of a job over REST."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from platform_core.recovery.phases import NAMES
from webapp.accounts import permissions
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.jobs import corruption, queries, recoveries, spares
from webapp.jobs.models import Job
from webapp.nodes import queries as cluster_queries


class RecoveryOut(serializers.Serializer[Any]):
    attempt = serializers.IntegerField(help_text="Number of the attempt that ended.")
    reason = serializers.CharField(help_text="Why it ended.")
    began_ms = serializers.IntegerField(help_text="When training stood still.")
    phases_ms = serializers.DictField(
        child=serializers.IntegerField(allow_null=True),
        help_text=f"Milliseconds of {', '.join(NAMES)}; null: not over yet.",
    )
    total_ms = serializers.IntegerField()
    steps_lost = serializers.IntegerField()
    over = serializers.BooleanField(help_text="The next attempt made a step, or has ended too.")


class CorruptionFoundOut(serializers.Serializer[Any]):
    attempt = serializers.IntegerField()
    step = serializers.IntegerField(help_text="At which its ranks computed different results.")
    at_ms = serializers.IntegerField()
    nodes = serializers.ListField(
        child=serializers.CharField(), help_text="Hostnames of the guilty ranks' nodes."
    )
    suspects = serializers.ListField(
        child=serializers.CharField(),
        help_text="Hostnames of nodes one of which is guilty, where that is open.",
    )
    sentence = serializers.CharField()


class CorruptionOut(serializers.Serializer[Any]):
    agreed_step = serializers.IntegerField(
        allow_null=True, help_text="The last step at which its ranks agreed; null: none yet."
    )
    found = CorruptionFoundOut(many=True)


class SpareOut(serializers.Serializer[Any]):
    node = serializers.CharField(help_text="Hostname of a node that is kept ready with the files of the job.")
    slots = serializers.IntegerField()
    held = serializers.BooleanField(help_text="Whether its slots are kept from other jobs.")
    since_ms = serializers.IntegerField()


class RecoveriesOut(serializers.Serializer[Any]):
    results = RecoveryOut(many=True)
    mean_ms = serializers.IntegerField(allow_null=True, help_text="Mean time to recovery.")
    success = serializers.FloatField(allow_null=True, help_text="Part of the recoveries that reached a step.")
    steps_lost = serializers.IntegerField()
    effective_training_time = serializers.FloatField(
        allow_null=True, help_text="Productive time over wall time since the first start; null before it."
    )
    productive_ms = serializers.IntegerField()
    wall_ms = serializers.IntegerField()
    corruption = CorruptionOut()
    spares = SpareOut(many=True)


class Recoveries(APIView):
    @extend_schema(responses={200: RecoveriesOut})
    def get(self, request: Request, job_id: str) -> Response:
        """List the recoveries of a job, newest first, with the duration of each phase and their summary."""
        job = queries.find(job_id)
        if job is None:
            raise TrainmasterError("not_found", what=f"job {job_id}")
        permissions.require(actor_of(request), "job.view", job.team_id, what=f"job {job_id}")
        measured = recoveries.of_job(job, now_ms())
        rows = [
            {
                "attempt": row.attempt, "reason": row.reason, "began_ms": row.began_ms,
                "phases_ms": {name: getattr(row.phases, name) for name in NAMES},
                "total_ms": row.phases.total_ms, "steps_lost": row.steps_lost, "over": row.over,
            }
            for row in measured.recoveries
        ]  # fmt: skip
        sums, times = measured.summary, measured.effective
        return Response(
            {
                "results": rows, "mean_ms": sums.mean_ms, "success": sums.success, "steps_lost": sums.steps_lost,
                "effective_training_time": times.ratio, "productive_ms": times.productive_ms, "wall_ms": times.wall_ms,
                "corruption": _corruption(job), "spares": _spares(job),
            }
        )  # fmt: skip


def _corruption(job: Job) -> dict[str, Any]:
    known = corruption.of_job(job)
    found = [
        {
            "attempt": row.attempt.number, "step": row.step, "at_ms": row.at_ms, "sentence": row.sentence,
            "nodes": cluster_queries.all_with_hostnames(row.nodes),
            "suspects": cluster_queries.all_with_hostnames(row.suspects),
        }
        for row in known.corruptions
    ]  # fmt: skip
    return {"agreed_step": known.agreed_step, "found": found}


def _spares(job: Job) -> list[dict[str, Any]]:
    return [
        {"node": row.node.hostname, "slots": row.slots, "held": row.held, "since_ms": row.since_ms}
        for row in spares.of_job(job)
    ]
