"""Promotion and rollback over REST."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.queries import actor_of
from webapp.deployments import rollouts
from webapp.deployments.api import OneDeploymentOut, deployment_for


class Promote(APIView):
    @extend_schema(request=None, responses={200: OneDeploymentOut})
    def post(self, request: Request, deployment_id: str) -> Response:
        """The canaries have been watched long enough: they are checked once more, then the other nodes switch."""
        deployment_for(request, deployment_id)
        rollouts.promote(actor_of(request), deployment_id)
        return Response(OneDeploymentOut(deployment_for(request, deployment_id)).data)


class RollBack(APIView):
    @extend_schema(request=None, responses={200: OneDeploymentOut})
    def post(self, request: Request, deployment_id: str) -> Response:
        """Every node goes back to the version that it ran before; no bytes are moved."""
        deployment_for(request, deployment_id)
        rollouts.roll_back(actor_of(request), deployment_id)
        return Response(OneDeploymentOut(deployment_for(request, deployment_id)).data)
