"""Service levels over REST: read them for the cluster or a team, and set targets."""

from typing import Any

from django.conf import settings
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.service_levels.objectives import (
    HIGHEST_TARGET,
    LEAST_LIMIT_MS,
    LOWEST_TARGET,
    MOST_LIMIT_MS,
)
from webapp.accounts.permissions import require
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.rest.bodies import sent
from webapp.service_levels import queries, services
from webapp.service_levels.queries import Level


def _share(help_text: str, source: str | None = None) -> serializers.FloatField:
    return serializers.FloatField(allow_null=True, help_text=help_text, source=source)


class CountsOut(serializers.Serializer[Any]):
    good = serializers.FloatField()
    total = serializers.FloatField(help_text="0: no data.")
    compliance = _share("Good of all, 0 to 1; null: no data.")


class LevelOut(serializers.Serializer[Any]):
    code = serializers.CharField(source="objective.code")
    title = serializers.CharField(source="objective.title")
    meaning = serializers.CharField(source="objective.sentence", help_text="When an event is good.")
    counted = serializers.CharField(source="objective.counted", help_text="What the events are.")
    target = serializers.FloatField(source="objective.target", help_text="Share of events to be good.")
    limit_ms = serializers.IntegerField(source="objective.limit_ms", allow_null=True)
    standing = serializers.CharField(help_text="met, missed or no_data, over 28 days.")
    week = CountsOut(help_text="The last 7 days.")
    month = CountsOut(help_text="The last 28 days.")
    budget_left = _share("Part of the error budget of 28 days, 1 to 0; below 0 it is overspent.")
    trend = serializers.CharField(
        help_text="better, worse, unchanged or no_data: 7 days against the 7 before."
    )
    changed_by = serializers.CharField(source="entry.changed_by", help_text="Empty: the default.")
    url = serializers.SerializerMethodField()

    def get_url(self, level: Level) -> str:
        return f"{settings.PUBLIC_URL}{reverse('service_levels:level', args=[level.objective.code])}"


class OneLevelOut(LevelOut):
    weeks = CountsOut(many=True, help_text="Periods of 7 days, the oldest first; the last ends now.")


class FirstStepOut(serializers.Serializer[Any]):
    size = serializers.CharField(source="label", help_text="GPUs of the jobs.")
    jobs = serializers.IntegerField()
    p50_ms = serializers.IntegerField()
    p95_ms = serializers.IntegerField()
    longest_ms = serializers.IntegerField()


class LevelsOut(serializers.Serializer[Any]):
    at_ms = serializers.IntegerField()
    team = serializers.CharField(help_text="Empty: the whole cluster.")
    results = LevelOut(many=True)
    first_steps = FirstStepOut(many=True, help_text="From submission to the first step, of 7 days.")
    recovery_ms = serializers.IntegerField(
        allow_null=True, help_text="Mean time to recovery of the cluster after faults of the platform."
    )


class ObjectiveSent(serializers.Serializer[Any]):
    target = serializers.FloatField(required=False, min_value=LOWEST_TARGET, max_value=HIGHEST_TARGET)
    limit_ms = serializers.IntegerField(required=False, min_value=LEAST_LIMIT_MS, max_value=MOST_LIMIT_MS)


class ServiceLevels(APIView):
    @extend_schema(
        operation_id="service_levels_list",
        parameters=[
            OpenApiParameter("team", str, description="The levels of a team; without it the cluster's.")
        ],
        responses=LevelsOut,
    )
    def get(self, request: Request) -> Response:
        """Read how the platform keeps its objectives, over 7 and 28 days."""
        actor, team, now = actor_of(request), request.GET.get("team", ""), now_ms()
        require(actor, "cluster.view")
        if team:
            require(actor, "team.view", team)
        durations = queries.durations(now, team)
        body = {
            "at_ms": now, "team": team, "results": queries.levels(now, team),
            "first_steps": durations.first_steps, "recovery_ms": durations.recovery_ms,
        }  # fmt: skip
        return Response(LevelsOut(body).data)


class OneServiceLevel(APIView):
    @extend_schema(responses=OneLevelOut)
    def get(self, request: Request, code: str) -> Response:
        """Read one service level, week by week."""
        require(actor_of(request), "cluster.view")
        return _level(code)

    @extend_schema(request=ObjectiveSent, responses=OneLevelOut)
    def patch(self, request: Request, code: str) -> Response:
        """Set another target or limit."""
        services.set_objective(actor_of(request), code, **sent(ObjectiveSent, request))
        return _level(code)

    @extend_schema(responses={200: OneLevelOut})
    def delete(self, request: Request, code: str) -> Response:
        """Go back to the default target and limit."""
        services.reset(actor_of(request), code)
        return _level(code)


def _level(code: str) -> Response:
    return Response(OneLevelOut(queries.level(code, now_ms())).data)
