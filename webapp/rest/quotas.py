"""What a team may hold of each GPU type, over REST."""

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor, require
from webapp.accounts.queries import actor_of
from webapp.jobs import queries as jobs
from webapp.quotas import queries, services
from webapp.rest.bodies import sent
from webapp.rest.openapi import listed

_BEYOND = "true: jobs beyond the maximum wait; false: they are refused."


class QuotaOut(serializers.Serializer[Any]):
    gpu_type = serializers.CharField()
    guaranteed = serializers.IntegerField(help_text="GPUs.")
    maximum = serializers.IntegerField(help_text="GPUs, borrowed ones included.")
    queue_beyond = serializers.BooleanField(help_text=_BEYOND)
    version = serializers.IntegerField(
        help_text="Send it with a change, so that nobody overwrites another's change."
    )
    held = serializers.IntegerField(help_text="GPUs in use now.")
    borrowed = serializers.IntegerField(help_text="GPUs in use beyond the guarantee.")
    waiting = serializers.IntegerField(help_text="GPUs that the team's waiting jobs ask for.")
    notice = serializers.CharField(
        help_text="A warning when the guarantees of all teams exceed the cluster; else empty."
    )


class QuotaIn(serializers.Serializer[Any]):
    guaranteed = serializers.IntegerField(help_text="GPUs.")
    maximum = serializers.IntegerField(help_text="GPUs, borrowed ones included.")
    queue_beyond = serializers.BooleanField(required=False, default=True, help_text=_BEYOND)
    version = serializers.IntegerField(
        required=False,
        default=0,
        min_value=0,
        help_text="The version that was read; 0 or left out: no quota yet.",
    )
    reason = serializers.CharField(
        required=False, default="", allow_blank=True, max_length=500, help_text="Kept in the audit log."
    )


class Quotas(APIView):
    @extend_schema(responses=listed(QuotaOut))
    def get(self, request: Request, slug: str) -> Response:
        """List the quotas of a team, one for each GPU type."""
        return Response({"results": QuotaOut(_seen_by(actor_of(request), slug), many=True).data})


class OneQuota(APIView):
    @extend_schema(responses=QuotaOut)
    def get(self, request: Request, slug: str, gpu_type: str) -> Response:
        """Read the quota of a team for one GPU type, and what the team uses of it."""
        return Response(QuotaOut(_one(actor_of(request), slug, gpu_type)).data)

    @extend_schema(request=QuotaIn, responses=QuotaOut)
    def put(self, request: Request, slug: str, gpu_type: str) -> Response:
        """Set the quota of a team for one GPU type. For leads of the team."""
        actor = actor_of(request)
        require(actor, "quota.edit", slug)
        change = dict(sent(QuotaIn, request))
        team = accounts.team(slug).slug
        services.edit_quota(actor, team, gpu_type, cause=change.pop("reason"), **change)
        return Response(QuotaOut(_one(actor, slug, gpu_type)).data)


def _one(actor: Actor, slug: str, gpu_type: str) -> dict[str, Any]:
    for quota in _seen_by(actor, slug):
        if quota["gpu_type"] == gpu_type:
            return quota
    raise TrainmasterError("not_found", what=f"quota of {slug} for {gpu_type}")


def _seen_by(actor: Actor, slug: str) -> list[dict[str, Any]]:
    require(actor, "quota.view", slug)
    team = accounts.team(slug).slug
    waiting = jobs.queued_by_type(team)
    return [
        asdict(quota) | {"borrowed": quota.borrowed, "waiting": waiting.get(quota.gpu_type, 0)}
        for quota in queries.quotas(team)
    ]
