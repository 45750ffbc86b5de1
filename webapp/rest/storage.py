"""What the store holds by team and kind over REST, and what in it nobody needs any more."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from platform_core.storage.holdings import Split
from webapp.accounts.permissions import require
from webapp.accounts.queries import actor_of
from webapp.artifacts import services as artifact_services
from webapp.rest.bodies import sent
from webapp.rest.enums import LeftoverKind, LimitedKind
from webapp.rest.openapi import listed
from webapp.storage import queries, retention, services
from webapp.storage.models import Damage, Leftover


class StoragePart(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text="code, dataset, model, checkpoint, upload, run files or logs")
    bytes = serializers.IntegerField()
    items = serializers.IntegerField()
    cold_bytes = serializers.IntegerField(help_text="Of these bytes, in the cold store.")
    limit = serializers.IntegerField(
        allow_null=True, help_text="Of this kind; null: the team has none of its own."
    )


class StorageDay(serializers.Serializer[Any]):
    number = serializers.IntegerField(help_text="Days since 1970-01-01, UTC.")
    bytes = serializers.IntegerField()


class StorageOut(serializers.Serializer[Any]):
    team = serializers.CharField()
    bytes = serializers.IntegerField()
    month_micro_dollars = serializers.IntegerField(
        help_text="What it costs a month; 0 where no price is set."
    )
    parts = StoragePart(many=True)
    days = StorageDay(many=True)
    growth = serializers.FloatField(
        allow_null=True, help_text="Bytes a day; null while too few days are known."
    )
    uploaded = serializers.IntegerField(help_text="What counts against the limit.")
    limit = serializers.IntegerField()
    days_left = serializers.FloatField(
        allow_null=True,
        help_text="Until uploads are refused, if it goes on so; null: not within ten years, or not known.",
    )

    budget = serializers.IntegerField(
        allow_null=True, help_text="Micro-dollars a month that the team means to spend; null: none is set."
    )


class StorageShareOut(serializers.Serializer[Any]):
    team = serializers.CharField(help_text="Of a project; empty: of all teams that were asked for.")
    name = serializers.CharField(help_text="Of the project, person, age, kind or team; empty: of none.")
    bytes = serializers.IntegerField()
    items = serializers.IntegerField()
    cold_bytes = serializers.IntegerField(help_text="Of these bytes, in the cold store.")
    month_micro_dollars = serializers.IntegerField(
        help_text="What it costs a month; 0 where no price is set."
    )


class StorageLimitIn(serializers.Serializer[Any]):
    team = serializers.CharField()
    kind = serializers.ChoiceField(choices=LimitedKind)
    bytes = serializers.IntegerField(
        min_value=0, max_value=2**60, allow_null=True, help_text="null: the settings alone decide."
    )


class StorageBudgetIn(serializers.Serializer[Any]):
    team = serializers.CharField()
    month_micro_dollars = serializers.IntegerField(
        min_value=0, max_value=10**15, allow_null=True, help_text="null: no budget."
    )


class AgePolicyOut(serializers.Serializer[Any]):
    what = serializers.CharField()
    setting = serializers.CharField(help_text="By which an operator changes it.")
    days = serializers.IntegerField(help_text="0: they are kept.")
    due = serializers.IntegerField(help_text="Items that the next turns delete.")


class LeftoverOut(serializers.ModelSerializer[Leftover]):
    team = serializers.CharField(source="team_id")
    kind = serializers.ChoiceField(choices=LeftoverKind)
    kept_by = serializers.CharField(source="kept_by.username", allow_null=True, default=None)
    goes_ms = serializers.SerializerMethodField(help_text="When its bytes are deleted; null: they stay.")

    class Meta:
        model = Leftover
        fields = ("id", "team", "kind", "item", "name", "bytes", "found_ms", "goes_ms", "kept_by")

    def get_goes_ms(self, row: Leftover) -> int | None:
        return queries.goes_ms(row)


class DamageOut(serializers.ModelSerializer[Damage]):
    class Meta:
        model = Damage
        fields = ("manifest", "path", "kind", "name", "why", "bytes", "found_ms", "mended_ms")


class KeepIn(serializers.Serializer[Any]):
    kept = serializers.BooleanField()


class Storage(APIView):
    @extend_schema(responses=listed(StorageOut))
    def get(self, request: Request) -> Response:
        """List what your teams have in the store by kind, how it grows, and when their limit is reached."""
        return Response({"results": StorageOut(queries.teams(actor_of(request).sees), many=True).data})


class StorageShares(APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter("by", enum=list(Split), description="What divides it; by default project."),
            OpenApiParameter("team", description="Only of this team."),
        ],
        responses=listed(StorageShareOut),
    )
    def get(self, request: Request) -> Response:
        """List what your teams have in the store by project, owner, age, kind or team, the largest first."""
        by, team = request.query_params.get("by", Split.PROJECT.value), request.query_params.get("team", "")
        if by not in list(Split):
            why = f"{by[:40]!r} is none of {', '.join(Split)}"
            raise TrainmasterError("request_invalid", what="by", why=why)
        found = queries.shares(actor_of(request).sees, Split(by), team)
        return Response({"results": StorageShareOut(found, many=True).data})


class Leftovers(APIView):
    @extend_schema(responses=listed(LeftoverOut))
    def get(self, request: Request) -> Response:
        """List bytes of your teams that nobody needs any more, and when they are deleted."""
        return Response({"results": LeftoverOut(queries.leftovers(actor_of(request).sees), many=True).data})


class Damages(APIView):
    @extend_schema(responses=listed(DamageOut))
    def get(self, request: Request) -> Response:
        """List files of your teams that the store does not have as they were registered, and those that were mended."""
        return Response({"results": DamageOut(queries.damages(actor_of(request).sees), many=True).data})


class OneLeftover(APIView):
    @extend_schema(request=KeepIn, responses={200: LeftoverOut})
    def patch(self, request: Request, leftover_id: int) -> Response:
        """Keep bytes from deletion, or let them go again after another time of grace."""
        row = services.keep(actor_of(request), leftover_id, sent(KeepIn, request)["kept"])
        return Response(LeftoverOut(row).data)


class StorageLimits(APIView):
    @extend_schema(request=StorageLimitIn, responses={200: StorageLimitIn})
    def put(self, request: Request) -> Response:
        """Set how much of a kind a team may keep in the store; beyond it uploads are refused, or new jobs."""
        asked = sent(StorageLimitIn, request)
        artifact_services.set_limit(actor_of(request), asked["team"], asked["kind"], asked["bytes"])
        return Response(asked)


class StorageBudgets(APIView):
    @extend_schema(request=StorageBudgetIn, responses={200: StorageBudgetIn})
    def put(self, request: Request) -> Response:
        """Set what a team means to spend on the store a month: beyond it an alert fires."""
        asked = sent(StorageBudgetIn, request)
        services.set_budget(actor_of(request), asked["team"], asked["month_micro_dollars"])
        return Response(asked)


class AgePolicies(APIView):
    @extend_schema(responses=listed(AgePolicyOut))
    def get(self, request: Request) -> Response:
        """List what is deleted for its age, and how much the next turns would delete."""
        require(actor_of(request), "platform.manage")
        return Response({"results": AgePolicyOut(retention.policies(), many=True).data})
