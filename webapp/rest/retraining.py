"""Retraining over REST: the policy of a model, its cycles, and the decisions about them."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from platform_core.retraining.cycle import ASKS, DESCRIPTION, CycleState
from webapp.accounts import permissions
from webapp.accounts.queries import actor_of
from webapp.registry import queries as registry
from webapp.registry.models import Model
from webapp.rest.enums import RetrainingState, RetrainingTrigger
from webapp.rest.openapi import listed
from webapp.retraining import queries, services
from webapp.retraining.models import Cycle, Policy

POLICY = {"$ref": "#/components/schemas/RetrainingPolicy"}


@extend_schema_field(POLICY)
class PolicyFields(serializers.JSONField):
    """What was set."""


class RetrainingHold(serializers.Serializer[Any]):
    trigger = serializers.CharField(help_text="What asks for a cycle; empty: nothing does.")
    sentence = serializers.CharField(help_text="The same with its numbers.")
    reasons = serializers.ListField(child=serializers.CharField(), help_text="Why none began all the same.")


class RetrainingOut(serializers.Serializer[Any]):
    team = serializers.CharField(source="model.team_id")
    model = serializers.CharField(source="model.name")
    author = serializers.CharField(source="author.username", help_text="As whom its cycles act.")
    policy = PolicyFields(source="spec")
    looked_ms = serializers.IntegerField(help_text="When it was last looked at; 0: not yet.")
    held = serializers.SerializerMethodField()

    @extend_schema_field(RetrainingHold)
    def get_held(self, row: Policy) -> Any:
        return {"trigger": "", "sentence": "", "reasons": [], **row.held}


class RetrainingCycleOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    team = serializers.CharField(source="model.team_id")
    model = serializers.CharField(source="model.name")
    trigger = serializers.ChoiceField(choices=RetrainingTrigger)
    cause = serializers.CharField(help_text="What asked for it, with the numbers.")
    state = serializers.ChoiceField(choices=RetrainingState)
    meaning = serializers.SerializerMethodField(help_text="What the state means.")
    reason = serializers.CharField(help_text="Why it waits, or how it ended.")
    asks = serializers.SerializerMethodField(help_text="Whether it waits for an approval.")
    base = serializers.IntegerField(source="base.version", help_text="The version that was in production.")
    dataset = serializers.CharField(help_text="Snapshot that its job reads; empty: none, or no job yet.")
    job = serializers.CharField(source="job_id", allow_null=True)
    version = serializers.IntegerField(source="version.version", allow_null=True, default=None)
    endpoint = serializers.CharField(source="endpoint.name", allow_null=True, default=None)
    asked_by = serializers.CharField(
        source="asked_by.username", allow_null=True, default=None, help_text="null: the policy."
    )
    approved_by = serializers.ListField(child=serializers.CharField())
    began_ms = serializers.IntegerField()
    since_ms = serializers.IntegerField(help_text="In this state.")
    ended_ms = serializers.IntegerField(allow_null=True)

    def get_meaning(self, row: Cycle) -> str:
        return DESCRIPTION[CycleState(row.state)]

    def get_asks(self, row: Cycle) -> bool:
        return row.state in ASKS


class Policies(APIView):
    @extend_schema(responses=listed(RetrainingOut))
    def get(self, request: Request) -> Response:
        """List the retraining policies of the models of your teams."""
        return Response({"results": RetrainingOut(queries.policies(actor_of(request).sees), many=True).data})


class ModelRetraining(APIView):
    @extend_schema(responses=RetrainingOut)
    def get(self, request: Request, team: str, name: str) -> Response:
        """Read when a model is retrained, and what the last look at it found."""
        return Response(RetrainingOut(_policy(_model(request, team, name))).data)

    @extend_schema(request={"application/json": POLICY}, responses=RetrainingOut)
    def put(self, request: Request, team: str, name: str) -> Response:
        """Set when a model is retrained; its cycles act as you."""
        row = services.set_policy(actor_of(request), _model(request, team, name), request.data)
        return Response(RetrainingOut(row).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, team: str, name: str) -> Response:
        """Retrain it no more; a cycle under way goes on."""
        services.delete_policy(actor_of(request), _model(request, team, name))
        return Response(status=204)


class Cycles(APIView):
    @extend_schema(responses=listed(RetrainingCycleOut))
    def get(self, request: Request, team: str, name: str) -> Response:
        """List the retraining cycles of a model, the newest first."""
        rows = queries.cycles(_model(request, team, name))
        return Response({"results": RetrainingCycleOut(rows, many=True).data})

    @extend_schema(request=None, responses={201: RetrainingCycleOut})
    def post(self, request: Request, team: str, name: str) -> Response:
        """Begin a cycle now, within the limits of the policy."""
        row = services.start(actor_of(request), _model(request, team, name))
        return _read(row.id, request, 201)


class OneCycle(APIView):
    @extend_schema(responses=RetrainingCycleOut)
    def get(self, request: Request, cycle_id: str) -> Response:
        """Read a retraining cycle."""
        return _read(cycle_id, request)


class CycleApproval(APIView):
    @extend_schema(
        request=None, responses=RetrainingCycleOut,
        parameters=[OpenApiParameter("state", str, description="What was approved; refused where it is another.")],
    )  # fmt: skip
    def post(self, request: Request, cycle_id: str) -> Response:
        """Approve the step that a cycle waits with."""
        services.approve(actor_of(request), cycle_id, request.query_params.get("state", ""))
        return _read(cycle_id, request)


class CycleCancellation(APIView):
    @extend_schema(request=None, responses=RetrainingCycleOut)
    def post(self, request: Request, cycle_id: str) -> Response:
        """End a cycle: its job is stopped, its canary rolled back."""
        services.cancel(actor_of(request), cycle_id)
        return _read(cycle_id, request)


def _model(request: Request, team: str, name: str) -> Model:
    actor = actor_of(request)
    permissions.require(actor, "retraining.view", team, what=f"model {team}/{name}")
    return registry.model_for(actor, team, name)


def _policy(model: Model) -> Policy:
    row = queries.policy(model)
    if row is None:
        raise TrainmasterError("not_found", what=f"retraining policy of model {model}")
    return row


def _read(cycle_id: str, request: Request, status: int = 200) -> Response:
    return Response(RetrainingCycleOut(queries.cycle_for(actor_of(request), cycle_id)).data, status=status)
