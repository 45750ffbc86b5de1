"""Requests to use datasets over REST, and the decisions on them."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.queries import actor_of
from webapp.datasets import queries, services
from webapp.datasets.models import AccessRequest
from webapp.rest.bodies import sent
from webapp.rest.enums import AccessDecision
from webapp.rest.openapi import listed


class AccessIn(serializers.Serializer[Any]):
    dataset_team = serializers.CharField(max_length=60, help_text="The team that has the dataset.")
    dataset = serializers.CharField(max_length=120)
    team = serializers.CharField(max_length=60, help_text="Whose jobs would use it.")
    purpose = serializers.CharField(max_length=40)
    project = serializers.CharField(
        max_length=120, default="", allow_blank=True, help_text="Empty: all of the team."
    )
    reason = serializers.CharField(max_length=2000, default="", allow_blank=True)


class DecisionIn(serializers.Serializer[Any]):
    decision = serializers.ChoiceField(choices=AccessDecision)
    days = serializers.IntegerField(default=0, min_value=0, help_text="How long it holds; 0: without end.")


class AccessOut(serializers.ModelSerializer[AccessRequest]):
    dataset_team = serializers.CharField(source="dataset.team_id")
    dataset = serializers.CharField(source="dataset.name")
    team = serializers.CharField(source="team_id")
    requested_by = serializers.CharField(source="requested_by.username")
    decided_by = serializers.CharField(source="decided_by.username", default=None, allow_null=True)

    class Meta:
        model = AccessRequest
        fields = (
            "id", "dataset_team", "dataset", "team", "project", "purpose", "reason", "state", "requested_by",
            "requested_ms", "decided_by", "decided_ms", "expires_ms",
        )  # fmt: skip


class AccessRequests(APIView):
    @extend_schema(
        parameters=[OpenApiParameter("dataset_team"), OpenApiParameter("dataset")],
        responses=listed(AccessOut),
    )
    def get(self, request: Request) -> Response:
        """List the requests of your teams and for their datasets, newest first."""
        team, name = (request.query_params.get(field, "") for field in ("dataset_team", "dataset"))
        return Response(
            {"results": AccessOut(queries.requests(actor_of(request), team, name), many=True).data}
        )

    @extend_schema(request=AccessIn, responses={201: AccessOut})
    def post(self, request: Request) -> Response:
        """Request a use of a dataset for a team that you lead."""
        body = sent(AccessIn, request)
        row = services.request_access(
            actor_of(request), body["dataset_team"], body["dataset"], body["team"], body["purpose"],
            body["project"], body["reason"],
        )  # fmt: skip
        return Response(AccessOut(row).data, status=201)


class OneAccessRequest(APIView):
    @extend_schema(operation_id="dataset_access_decide", request=DecisionIn, responses={200: AccessOut})
    def post(self, request: Request, request_id: str) -> Response:
        """Approve or refuse a request that waits, or revoke a grant. The owner of the dataset and leads may."""
        body, actor = sent(DecisionIn, request), actor_of(request)
        if body["decision"] == "revoke":
            row = services.revoke(actor, request_id)
        else:
            row = services.decide(actor, request_id, body["decision"] == "approve", body["days"])
        return Response(AccessOut(row).data)
