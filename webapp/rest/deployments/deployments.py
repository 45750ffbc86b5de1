"""Deployments over REST."""

from dataclasses import fields

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.queries import actor_of
from webapp.deployments import queries, services
from webapp.deployments.delivery import keeping, sharing
from webapp.deployments.values import Manner
from webapp.rest.deployments.serializers import (
    Change,
    DeploymentOut,
    NewDeployment,
    OneDeploymentOut,
    rollout_wish,
)
from webapp.rest.openapi import listed
from webapp.rollouts import services as rollouts

MANNER = [field.name for field in fields(Manner)]


class Deployments(APIView):
    @extend_schema(
        parameters=[OpenApiParameter("model_id", str, description="Only of this model, TEAM/NAME.")],
        responses=listed(DeploymentOut),
    )
    def get(self, request: Request) -> Response:
        """List the newest 100 deployments of your teams."""
        rows = queries.visible(actor_of(request).sees, request.query_params.get("model_id", ""))[:100]
        return Response({"results": DeploymentOut(rows, many=True).data})  # type: ignore[arg-type]

    @extend_schema(request=NewDeployment, responses={201: DeploymentOut})
    def post(self, request: Request) -> Response:
        """Deploy a version of a model to nodes."""
        body = NewDeployment(data=request.data)
        body.is_valid(raise_exception=True)
        data = dict(body.validated_data)
        wish = rollout_wish(data.pop("rollout"))
        manner = Manner(**{name: data.pop(name) for name in MANNER if name in data})
        model, version = data.pop("model_id"), data.pop("version")
        row = rollouts.deploy(actor_of(request), model, version, wish=wish, manner=manner, **data)
        return Response(DeploymentOut(queries.find(row.id)).data, status=201)


class DeploymentDetail(APIView):
    @extend_schema(responses={200: OneDeploymentOut})
    def get(self, request: Request, deployment_id: str) -> Response:
        """Read a deployment."""
        return Response(OneDeploymentOut(queries.seen_by(actor_of(request), deployment_id)).data)

    @extend_schema(request=Change, responses={200: OneDeploymentOut})
    def patch(self, request: Request, deployment_id: str) -> Response:
        """Pin or unpin a deployment, or change its priority or rate cap, also while it is in progress."""
        body = Change(data=request.data)
        body.is_valid(raise_exception=True)
        changes = dict(body.validated_data)
        if "pin" in changes:
            keeping.pin(actor_of(request), deployment_id, changes.pop("pin"))
        if changes:
            sharing.change(actor_of(request), deployment_id, **changes)
        return Response(OneDeploymentOut(queries.seen_by(actor_of(request), deployment_id)).data)

    @extend_schema(responses={200: OneDeploymentOut})
    def delete(self, request: Request, deployment_id: str) -> Response:
        """Cancel a deployment: the nodes delete what they received."""
        services.cancel(actor_of(request), deployment_id)
        return Response(OneDeploymentOut(queries.seen_by(actor_of(request), deployment_id)).data)


class Retry(APIView):
    @extend_schema(request=None, responses={200: DeploymentOut})
    def post(self, request: Request, deployment_id: str) -> Response:
        """Retry a deployment on the nodes that failed or evicted it; verified files are kept."""
        queries.seen_by(actor_of(request), deployment_id)
        rollouts.retry(actor_of(request), deployment_id)
        return Response(DeploymentOut(queries.seen_by(actor_of(request), deployment_id)).data)


class Promote(APIView):
    @extend_schema(request=None, responses={200: OneDeploymentOut})
    def post(self, request: Request, deployment_id: str) -> Response:
        """Promote a rollout: the canaries are checked once more, then the other nodes switch."""
        queries.seen_by(actor_of(request), deployment_id)
        rollouts.promote(actor_of(request), deployment_id)
        return Response(OneDeploymentOut(queries.seen_by(actor_of(request), deployment_id)).data)


class RollBack(APIView):
    @extend_schema(request=None, responses={200: OneDeploymentOut})
    def post(self, request: Request, deployment_id: str) -> Response:
        """Roll back: every node switches to the version it ran before. No files are sent."""
        queries.seen_by(actor_of(request), deployment_id)
        rollouts.roll_back(actor_of(request), deployment_id)
        return Response(OneDeploymentOut(queries.seen_by(actor_of(request), deployment_id)).data)
