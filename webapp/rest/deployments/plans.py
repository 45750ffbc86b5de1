"""Predicted times of a deployment by strategy, over REST. Nothing is sent."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.queries import actor_of
from webapp.deployments import services
from webapp.deployments.delivery import planning, sharing
from webapp.deployments.delivery.planning import STRATEGIES
from webapp.rest.deployments.serializers import EstimateOut
from webapp.rest.enums import RateBasis


class PlanIn(serializers.Serializer[Any]):
    model_id = serializers.CharField(max_length=200, help_text="TEAM/NAME.")
    version = serializers.IntegerField(min_value=1)
    target_workers = serializers.ListField(
        child=serializers.CharField(max_length=120),
        required=False,
        default=list,
        help_text="Ids or hostnames; empty: all ready nodes.",
    )
    strategy = serializers.ChoiceField(choices=STRATEGIES, required=False, default="auto")
    rate_cap = serializers.IntegerField(
        required=False, default=0, min_value=0, help_text="Bytes per second at each node; 0: no cap."
    )


class ShortOut(serializers.Serializer[Any]):
    node = serializers.CharField()
    free = serializers.IntegerField(help_text="Free bytes at its last report.")


class PlanOut(serializers.Serializer[Any]):
    model = serializers.CharField()
    version = serializers.IntegerField()
    bytes = serializers.IntegerField()
    workers = serializers.IntegerField()
    strategy = serializers.CharField(help_text="Strategy that would be used.")
    rate = serializers.IntegerField(help_text="Assumed bytes per second of each link.")
    rate_basis = serializers.ChoiceField(choices=RateBasis, help_text="Where that rate is from.")
    measured_on = serializers.IntegerField(help_text="Deployments that it was measured on.")
    likely_seconds = serializers.FloatField(help_text="Of the strategy that would be used.")
    low_seconds = serializers.FloatField(help_text="Unlikely to be less.")
    high_seconds = serializers.FloatField(help_text="Unlikely to be more.")
    nodes_capped = serializers.IntegerField(help_text="Nodes whose own caps are below that rate.")
    bound_seconds = serializers.FloatField(help_text="Theoretical minimum at that rate.")
    strategies = EstimateOut(many=True, help_text="Fastest first.")
    short_of_room = ShortOut(
        many=True, help_text="Nodes with too little free disk: they evict other models, or fail."
    )


class Plans(APIView):
    @extend_schema(parameters=[PlanIn], responses={200: PlanOut})
    def get(self, request: Request) -> Response:
        """Predict the time of each strategy. Nothing is sent."""
        query = request.query_params
        fields = {
            name: query[name] for name in ("model_id", "version", "strategy", "rate_cap") if name in query
        }
        return _answer(request, fields | {"target_workers": query.getlist("target_workers")})

    @extend_schema(request=PlanIn, responses={200: PlanOut})
    def post(self, request: Request) -> Response:
        """Predict the time of each strategy, for a body like that of a deployment. Nothing is sent."""
        return _answer(request, request.data)


def _answer(request: Request, fields: Any) -> Response:
    body = PlanIn(data=fields)
    body.is_valid(raise_exception=True)
    data = body.validated_data
    version, places = services.what_and_where(
        actor_of(request), data["model_id"], data["version"], data["target_workers"]
    )
    assert version.manifest is not None, "a version that is ready has one"
    size = version.manifest.total_bytes
    piece = version.manifest.document["piece_size"]
    cap = sharing.least_cap(version.model.team_id, data["rate_cap"])
    planned = planning.plan(places, size, piece, data["strategy"], cap)
    return Response(
        PlanOut(
            {
                "model": str(version.model),
                "version": version.version,
                "bytes": size,
                "workers": len(places),
                "strategy": planned.strategy,
                "rate": planned.rate,
                "rate_basis": planned.rates.basis,
                "measured_on": planned.rates.deployments,
                "likely_seconds": planned.chosen.time_ms / 1000,
                "low_seconds": planned.low_ms / 1000,
                "high_seconds": planned.high_ms / 1000,
                "nodes_capped": len(planned.capped),
                "bound_seconds": planned.chosen.bound_ms / 1000,
                "strategies": planned.estimates,
                "short_of_room": [
                    {"node": node, "free": free} for node, free in planning.short_of_room(places, size)
                ],
            }
        ).data
    )
