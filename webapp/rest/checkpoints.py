"""The checkpoints of a job over REST."""

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.checkpointing.live import FORMULA
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries as artifacts
from webapp.checkpoints import advice, deletion, orders, pins, queries, retention
from webapp.checkpoints.models import Checkpoint, SaveOrders
from webapp.jobs import queries as jobs
from webapp.jobs.models import Job
from webapp.rest.enums import MetricDirection


class CheckpointOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    step = serializers.IntegerField()
    attempt = serializers.IntegerField()
    metrics = serializers.DictField()
    saved_ms = serializers.IntegerField()
    manifest = serializers.CharField()
    bytes = serializers.IntegerField()
    kept = serializers.BooleanField(help_text="false: retention deleted its files.")
    pinned_by = serializers.CharField(
        allow_blank=True, help_text="Who keeps it from retention; empty: nobody."
    )
    damaged = serializers.CharField(
        allow_blank=True, help_text="Why it cannot be restored; empty: no damage is known."
    )


class SaveOrderOut(serializers.Serializer[Any]):
    order = serializers.IntegerField(source="save_order")
    asked_by = serializers.CharField()
    asked_ms = serializers.IntegerField()
    checkpoint = serializers.CharField(
        source="answer", allow_blank=True, help_text="The checkpoint that answered it; empty: none yet."
    )


class CheckpointsOut(serializers.Serializer[Any]):
    results = CheckpointOut(many=True)
    saving = serializers.DictField(
        allow_null=True,
        help_text="Interval and cost of saving, and the advised interval; null before the first save.",
    )
    interval = serializers.DictField(
        allow_null=True,
        help_text="The interval that the platform has set, with its formula, inputs and expected loss; null where the "
        "spec sets one, and before enough saves were measured.",
    )
    order = SaveOrderOut(allow_null=True, help_text="The last order to save now.")


class Checkpoints(APIView):
    @extend_schema(responses={200: CheckpointsOut})
    def get(self, request: Request, job_id: str) -> Response:
        """List the checkpoints of a job, highest step first, with the interval and the cost of saving.

        Costs in `saving` are fractions of the wall time; unknown values are null.
        """
        job = jobs.job_for(request, job_id)
        checkpoints = queries.of_job(job_id)
        saving = advice.of_job(job, checkpoints)
        told = queries.orders(job_id)
        return Response(
            {
                "results": [_row(row) for row in checkpoints],
                "saving": asdict(saving) if saving else None, "interval": _interval(told),
                "order": SaveOrderOut(told).data if told and told.save_order else None,
            }
        )  # fmt: skip

    @extend_schema(request=None, responses={202: SaveOrderOut})
    def post(self, request: Request, job_id: str) -> Response:
        """Order a checkpoint of a running job now.

        Its script saves when it asks `checkpoint_due` the next time; `order` of the list then names the checkpoint.
        """
        job = jobs.job_for(request, job_id)
        return Response(SaveOrderOut(orders.save_now(actor_of(request), job.id)).data, status=202)


class DeletionOut(serializers.Serializer[Any]):
    checkpoint = serializers.CharField()
    step = serializers.IntegerField()
    bytes = serializers.IntegerField(help_text="Of the checkpoint.")
    freed_bytes = serializers.IntegerField(
        help_text="That leave the store: without files that another one shares."
    )
    deleted = serializers.BooleanField(help_text="false: a dry run.")


class DeletionQuery(serializers.Serializer[Any]):
    dry_run = serializers.BooleanField(default=False, help_text="Only say what would be deleted.")


class CheckpointOfJob(APIView):
    @extend_schema(parameters=[DeletionQuery], responses={200: DeletionOut})
    def delete(self, request: Request, job_id: str, checkpoint_id: str) -> Response:
        """Delete the files of a checkpoint, whatever the rule of its job says.

        Refused where it is pinned, or where a model version, a job that may start from it, or a recall needs it.
        """
        job = jobs.job_for(request, job_id)
        query = DeletionQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        done = deletion.delete(actor_of(request), job.id, checkpoint_id, **query.validated_data)
        row = done.checkpoint
        return Response(
            {
                "checkpoint": row.id, "step": row.step, "bytes": row.bytes, "freed_bytes": done.freed_bytes,
                "deleted": done.deleted,
            }
        )  # fmt: skip


class Pin(APIView):
    @extend_schema(request=None, responses=CheckpointOut)
    def put(self, request: Request, job_id: str, checkpoint_id: str) -> Response:
        """Pin a checkpoint: retention keeps it until it is unpinned."""
        return self._set(request, job_id, checkpoint_id, pinned=True)

    @extend_schema(request=None, responses={200: CheckpointOut})
    def delete(self, request: Request, job_id: str, checkpoint_id: str) -> Response:
        """Unpin a checkpoint: the rule of its job decides again."""
        return self._set(request, job_id, checkpoint_id, pinned=False)

    def _set(self, request: Request, job_id: str, checkpoint_id: str, *, pinned: bool) -> Response:
        job = jobs.job_for(request, job_id)
        return Response(_row(pins.pin(actor_of(request), job.id, checkpoint_id, pinned=pinned)))


class RetentionRule(serializers.Serializer[Any]):
    keep_last = serializers.IntegerField(required=False)
    best = serializers.IntegerField(required=False)
    metric = serializers.CharField(required=False)
    direction = serializers.ChoiceField(choices=MetricDirection, required=False)
    every_hours = serializers.IntegerField(required=False)
    max_age_days = serializers.FloatField(required=False)


class Retained(serializers.Serializer[Any]):
    checkpoint = serializers.CharField()
    step = serializers.IntegerField()
    bytes = serializers.IntegerField()
    stays = serializers.ListField(
        child=serializers.CharField(), help_text="Why it stays; empty: it is deleted."
    )
    goes = serializers.CharField(allow_blank=True, help_text="Why it is deleted.")


class RetentionOut(serializers.Serializer[Any]):
    results = Retained(many=True)
    job_bytes = serializers.IntegerField(help_text="Of the job's checkpoints in the store.")
    team_bytes = serializers.IntegerField()
    deleted_bytes = serializers.IntegerField(
        help_text="That leave the store with those that the rule deletes."
    )


class Retention(APIView):
    @extend_schema(responses=RetentionOut)
    def get(self, request: Request, job_id: str) -> Response:
        """Read which checkpoints of a job stay by its own rule, and why."""
        job = jobs.job_for(request, job_id)
        return Response(_retained(job, retention.rule_of(job)))

    @extend_schema(request=RetentionRule, responses=RetentionOut)
    def post(self, request: Request, job_id: str) -> Response:
        """Preview another rule: which checkpoints it would delete. Nothing is deleted."""
        job = jobs.job_for(request, job_id)
        given = request.data if isinstance(request.data, dict) else {}
        return Response(_retained(job, retention.read_rule(given)))

    @extend_schema(request=RetentionRule, responses=RetentionOut)
    def put(self, request: Request, job_id: str) -> Response:
        """Set the rule of a job: from now on it deletes what it does not keep. Fields left out have their defaults."""
        job = jobs.job_for(request, job_id)
        given = request.data if isinstance(request.data, dict) else {}
        return Response(_retained(job, retention.set_rule(actor_of(request), job, given)))


def _row(row: Checkpoint) -> dict[str, Any]:
    return {
        "id": row.id, "step": row.step, "attempt": row.attempt, "metrics": row.metrics, "saved_ms": row.saved_ms,
        "manifest": row.manifest_id, "bytes": row.manifest.total_bytes, "kept": row.deleted_ms is None,
        "pinned_by": row.pinned_by, "damaged": row.damaged,
    }  # fmt: skip


def _retained(job: Job, rule: retention.Rule) -> dict[str, Any]:
    told, size = retention.of_job(job, rule), retention.bytes_of(job)
    return {
        "results": [
            {
                "checkpoint": row.id, "step": row.step, "bytes": row.bytes, "stays": list(reason.stays),
                "goes": reason.goes,
            }
            for row, reason in told
        ],
        "job_bytes": size.job, "team_bytes": size.team,
        "deleted_bytes": artifacts.freed_by([row.manifest_id for row, reason in told if not reason.stays]),
    }  # fmt: skip


def _interval(told: SaveOrders | None) -> dict[str, Any] | None:
    by_platform = queries.interval(told)
    if by_platform is None:
        return None
    live, measured = asdict(by_platform.live), asdict(by_platform.measured)
    return {**live, "sentence": by_platform.live.sentence, "formula": FORMULA, "inputs": measured}
