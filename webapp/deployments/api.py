"""Deployments over REST."""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from webapp.accounts import permissions
from webapp.accounts.queries import actor_of
from webapp.deployments import keeping, queries, rollout_serializers, services, sharing
from webapp.deployments.models import Deployment
from webapp.deployments.planning import STRATEGIES
from webapp.deployments.rollout_serializers import RolloutIn, RolloutOut
from webapp.deployments.values import Manner


class NewDeployment(serializers.Serializer[Any]):
    model_id = serializers.CharField(max_length=200, help_text="team/name")
    version = serializers.IntegerField(min_value=1)
    source_url = serializers.CharField(max_length=2000, required=False, default="", allow_blank=True)
    target_workers = serializers.ListField(
        child=serializers.CharField(max_length=120),
        required=False,
        default=list,
        help_text="nodes; none: every ready one",
    )
    strategy = serializers.ChoiceField(choices=STRATEGIES, required=False, default="mesh")
    preheat = serializers.BooleanField(
        required=False, default=False, help_text="fetch and verify, never activate, make room first"
    )
    pin = serializers.BooleanField(required=False, default=False, help_text="never give it up for room")
    priority = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=100,
        help_text="weight where deployments share a node's link; 10",
    )
    rate_cap = serializers.IntegerField(
        required=False,
        default=0,
        min_value=0,
        help_text="bytes per second in, and out, at each node; 0: no cap",
    )
    rollout = RolloutIn(required=False, default=None, allow_null=True)


class Change(serializers.Serializer[Any]):
    """What is left out stays as it is."""

    pin = serializers.BooleanField(required=False, help_text="true: the nodes never give it up for room")
    priority = serializers.IntegerField(required=False, min_value=1, max_value=100)
    rate_cap = serializers.IntegerField(required=False, min_value=0, help_text="bytes per second; 0: no cap")


class DeploymentOut(serializers.Serializer[Deployment]):
    id = serializers.CharField()
    model = serializers.CharField(source="model_version.model.__str__")
    version = serializers.IntegerField(source="model_version.version")
    status = serializers.CharField(source="state")
    estimated_time_seconds = serializers.SerializerMethodField()
    progress = serializers.SerializerMethodField(help_text="0 to 1")
    workers = serializers.SerializerMethodField()
    workers_complete = serializers.SerializerMethodField()
    workers_failed = serializers.SerializerMethodField()
    workers_evicted = serializers.SerializerMethodField(help_text="were complete, gave it up for room since")
    strategy = serializers.CharField()
    preheat = serializers.BooleanField()
    pinned = serializers.BooleanField()
    priority = serializers.IntegerField()
    rate_cap = serializers.IntegerField(help_text="bytes per second in, and out, at each node; 0: no cap")
    rollout = serializers.SerializerMethodField(help_text="null: it only brings the bytes")
    reason = serializers.CharField()
    created_ms = serializers.IntegerField()
    started_ms = serializers.IntegerField()
    finished_ms = serializers.IntegerField()

    @extend_schema_field(RolloutOut(allow_null=True))
    def get_rollout(self, row: Deployment) -> dict[str, Any] | None:
        return rollout_serializers.told(row)

    def get_estimated_time_seconds(self, row: Deployment) -> float:
        return row.estimated_ms / 1000

    def _progress(self, row: Deployment) -> Any:
        if not hasattr(row, "_progress"):
            row._progress = queries.progress_of(row)  # type: ignore[attr-defined]
        return row._progress  # type: ignore[attr-defined]

    def get_progress(self, row: Deployment) -> float:
        told = self._progress(row)
        return float(round(told.bytes_done / told.bytes_total, 4)) if told.bytes_total else 1.0

    def get_workers(self, row: Deployment) -> int:
        return int(self._progress(row).workers)

    def get_workers_complete(self, row: Deployment) -> int:
        return int(self._progress(row).workers_complete)

    def get_workers_failed(self, row: Deployment) -> int:
        return int(self._progress(row).workers_failed)

    def get_workers_evicted(self, row: Deployment) -> int:
        return int(self._progress(row).workers_evicted)


class OneDeploymentOut(DeploymentOut):
    bytes_done = serializers.SerializerMethodField(help_text="on all nodes together")
    bytes_total = serializers.SerializerMethodField()
    rate = serializers.SerializerMethodField(help_text="bytes per second into all nodes together")

    def get_bytes_done(self, row: Deployment) -> int:
        return int(self._progress(row).bytes_done)

    def get_bytes_total(self, row: Deployment) -> int:
        return int(self._progress(row).bytes_total)

    def get_rate(self, row: Deployment) -> int:
        return queries.rate_in(row)


def deployment_for(request: Any, deployment_id: str) -> Deployment:
    row = queries.find(deployment_id)
    if row is None:
        raise TrainmasterError("not_found", what=f"deployment {deployment_id}")
    permissions.require(actor_of(request), "deployment.view", row.team_id, what=f"deployment {deployment_id}")
    return row


class Deployments(APIView):
    @extend_schema(responses={200: DeploymentOut(many=True)})
    def get(self, request: Request) -> Response:
        """The newest hundred deployments you may see."""
        rows = queries.visible(actor_of(request).sees)[:100]
        return Response({"results": DeploymentOut(rows, many=True).data})  # type: ignore[arg-type]

    @extend_schema(request=NewDeployment, responses={201: DeploymentOut})
    def post(self, request: Request) -> Response:
        """Bring a model version to nodes."""
        wanted = NewDeployment(data=request.data)
        wanted.is_valid(raise_exception=True)
        data = dict(wanted.validated_data)
        rollout = rollout_serializers.wish(data.pop("rollout"))
        manner = Manner(data.pop("strategy"), data.pop("preheat"), data.pop("pin"), rollout,
                        data.pop("priority", 0), data.pop("rate_cap"))  # fmt: skip
        model, version = data.pop("model_id"), data.pop("version")
        row = services.create(actor_of(request), model, version, manner=manner, **data)
        return Response(DeploymentOut(queries.find(row.id)).data, status=201)


class DeploymentDetail(APIView):
    @extend_schema(responses={200: OneDeploymentOut})
    def get(self, request: Request, deployment_id: str) -> Response:
        return Response(OneDeploymentOut(deployment_for(request, deployment_id)).data)

    @extend_schema(request=Change, responses={200: OneDeploymentOut})
    def patch(self, request: Request, deployment_id: str) -> Response:
        """Pin it on its nodes, or let it go for room again; another priority or cap, while it is under way too."""
        change = Change(data=request.data)
        change.is_valid(raise_exception=True)
        wanted = dict(change.validated_data)
        if "pin" in wanted:
            keeping.pin(actor_of(request), deployment_id, wanted.pop("pin"))
        if wanted:
            sharing.change(actor_of(request), deployment_id, **wanted)
        return Response(OneDeploymentOut(deployment_for(request, deployment_id)).data)

    @extend_schema(responses={200: OneDeploymentOut})
    def delete(self, request: Request, deployment_id: str) -> Response:
        """Cancel: the nodes remove what they had received."""
        services.cancel(actor_of(request), deployment_id)
        return Response(OneDeploymentOut(deployment_for(request, deployment_id)).data)


class Retry(APIView):
    @extend_schema(request=None, responses={200: DeploymentOut})
    def post(self, request: Request, deployment_id: str) -> Response:
        """The nodes that failed try again; what they have verified they keep."""
        deployment_for(request, deployment_id)
        services.retry(actor_of(request), deployment_id)
        return Response(DeploymentOut(deployment_for(request, deployment_id)).data)
