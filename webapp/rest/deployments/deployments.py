"""Deployments over REST."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.queries import actor_of
from webapp.deployments import queries, services
from webapp.deployments.delivery import keeping, sharing
from webapp.deployments.rollout import switching
from webapp.deployments.values import Manner
from webapp.rest.deployments.serializers import (
    Change,
    DeploymentOut,
    NewDeployment,
    OneDeploymentOut,
    rollout_wish,
)
from webapp.rest.openapi import listed


class Deployments(APIView):
    @extend_schema(
        parameters=[OpenApiParameter("model_id", str, description="team/name: of this model alone")],
        responses=listed(DeploymentOut),
    )
    def get(self, request: Request) -> Response:
        """The newest hundred deployments you may see."""
        rows = queries.visible(actor_of(request).sees, request.query_params.get("model_id", ""))[:100]
        return Response({"results": DeploymentOut(rows, many=True).data})  # type: ignore[arg-type]

    @extend_schema(request=NewDeployment, responses={201: DeploymentOut})
    def post(self, request: Request) -> Response:
        """Bring a model version to nodes."""
        wanted = NewDeployment(data=request.data)
        wanted.is_valid(raise_exception=True)
        data = dict(wanted.validated_data)
        rollout = rollout_wish(data.pop("rollout"))
        manner = Manner(data.pop("strategy"), data.pop("preheat"), data.pop("pin"), rollout,
                        data.pop("priority", 0), data.pop("rate_cap"))  # fmt: skip
        model, version = data.pop("model_id"), data.pop("version")
        row = services.create(actor_of(request), model, version, manner=manner, **data)
        return Response(DeploymentOut(queries.find(row.id)).data, status=201)


class DeploymentDetail(APIView):
    @extend_schema(responses={200: OneDeploymentOut})
    def get(self, request: Request, deployment_id: str) -> Response:
        return Response(OneDeploymentOut(queries.seen_by(actor_of(request), deployment_id)).data)

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
        return Response(OneDeploymentOut(queries.seen_by(actor_of(request), deployment_id)).data)

    @extend_schema(responses={200: OneDeploymentOut})
    def delete(self, request: Request, deployment_id: str) -> Response:
        """Cancel: the nodes remove what they had received."""
        services.cancel(actor_of(request), deployment_id)
        return Response(OneDeploymentOut(queries.seen_by(actor_of(request), deployment_id)).data)


class Retry(APIView):
    @extend_schema(request=None, responses={200: DeploymentOut})
    def post(self, request: Request, deployment_id: str) -> Response:
        """The nodes that failed try again; what they have verified they keep."""
        queries.seen_by(actor_of(request), deployment_id)
        services.retry(actor_of(request), deployment_id)
        return Response(DeploymentOut(queries.seen_by(actor_of(request), deployment_id)).data)


class Promote(APIView):
    @extend_schema(request=None, responses={200: OneDeploymentOut})
    def post(self, request: Request, deployment_id: str) -> Response:
        """The canaries have been watched long enough: they are checked once more, then the other nodes switch."""
        queries.seen_by(actor_of(request), deployment_id)
        switching.promote(actor_of(request), deployment_id)
        return Response(OneDeploymentOut(queries.seen_by(actor_of(request), deployment_id)).data)


class RollBack(APIView):
    @extend_schema(request=None, responses={200: OneDeploymentOut})
    def post(self, request: Request, deployment_id: str) -> Response:
        """Every node goes back to the version that it ran before; no bytes are moved."""
        queries.seen_by(actor_of(request), deployment_id)
        switching.roll_back(actor_of(request), deployment_id)
        return Response(OneDeploymentOut(queries.seen_by(actor_of(request), deployment_id)).data)
