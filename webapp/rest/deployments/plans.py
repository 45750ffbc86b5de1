"""What each strategy would take, over REST: nothing moves."""

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


class Wish(serializers.Serializer[Any]):
    model_id = serializers.CharField(max_length=200, help_text="team/name")
    version = serializers.IntegerField(min_value=1)
    target_workers = serializers.ListField(
        child=serializers.CharField(max_length=120),
        required=False,
        default=list,
        help_text="nodes; none: every ready one",
    )
    strategy = serializers.ChoiceField(choices=STRATEGIES, required=False, default="auto")
    rate_cap = serializers.IntegerField(
        required=False, default=0, min_value=0, help_text="bytes per second at each node; 0: no cap"
    )


class ShortOut(serializers.Serializer[Any]):
    node = serializers.CharField()
    free = serializers.IntegerField(help_text="bytes, as it told last")


class PlanOut(serializers.Serializer[Any]):
    model = serializers.CharField()
    version = serializers.IntegerField()
    bytes = serializers.IntegerField()
    workers = serializers.IntegerField()
    strategy = serializers.CharField(help_text="that would be taken")
    rate = serializers.IntegerField(help_text="bytes per second on each link that this reckons with")
    nodes_capped = serializers.IntegerField(help_text="that take or give less than that, by their own caps")
    bound_seconds = serializers.FloatField(help_text="the least that any strategy could take at that rate")
    strategies = EstimateOut(many=True, help_text="the quickest first")
    short_of_room = ShortOut(
        many=True, help_text="nodes with less free than go there; they make room, or fail alone"
    )


class Plans(APIView):
    @extend_schema(parameters=[Wish], responses={200: PlanOut})
    def get(self, request: Request) -> Response:
        """What each strategy would take, before anything moves."""
        given = request.query_params
        asked = {
            name: given[name] for name in ("model_id", "version", "strategy", "rate_cap") if name in given
        }
        return _answer(request, asked | {"target_workers": given.getlist("target_workers")})

    @extend_schema(request=Wish, responses={200: PlanOut})
    def post(self, request: Request) -> Response:
        """The same, for a body like that of a deployment."""
        return _answer(request, request.data)


def _answer(request: Request, asked: Any) -> Response:
    wish = Wish(data=asked)
    wish.is_valid(raise_exception=True)
    data = wish.validated_data
    found, places = services.what_and_where(
        actor_of(request), data["model_id"], data["version"], data["target_workers"]
    )
    assert found.manifest is not None, "a version that is ready has one"
    size = found.manifest.total_bytes
    piece = found.manifest.document["piece_size"]
    cap = sharing.least_cap(found.model.team_id, data["rate_cap"])
    planned = planning.plan(places, size, piece, data["strategy"], cap)
    return Response(
        PlanOut(
            {
                "model": str(found.model),
                "version": found.version,
                "bytes": size,
                "workers": len(places),
                "strategy": planned.strategy,
                "rate": planned.rate,
                "nodes_capped": len(planned.capped),
                "bound_seconds": planned.chosen.bound_ms / 1000,
                "strategies": planned.estimates,
                "short_of_room": [
                    {"node": node, "free": free} for node, free in planning.short_of_room(places, size)
                ],
            }
        ).data
    )
