"""What a team may hold of each GPU type, over REST."""

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
from webapp.quotas import queries, services
from webapp.quotas.queries import QuotaView
from webapp.rest.bodies import sent
from webapp.rest.openapi import listed

_BEYOND = "true: jobs beyond the maximum wait; false: they are refused"


class QuotaOut(serializers.Serializer[Any]):
    gpu_type = serializers.CharField()
    guaranteed = serializers.IntegerField()
    maximum = serializers.IntegerField(help_text="with borrowing")
    queue_beyond = serializers.BooleanField(help_text=_BEYOND)
    version = serializers.IntegerField(help_text="give it with a change, so that nobody undoes another's")
    held = serializers.IntegerField(help_text="slots now")
    borrowed = serializers.IntegerField(help_text="of them beyond the guarantee")
    notice = serializers.CharField(
        help_text="says where all guarantees together exceed the cluster; else empty"
    )


class QuotaIn(serializers.Serializer[Any]):
    guaranteed = serializers.IntegerField()
    maximum = serializers.IntegerField(help_text="with borrowing")
    queue_beyond = serializers.BooleanField(required=False, default=True, help_text=_BEYOND)
    version = serializers.IntegerField(
        required=False, default=0, min_value=0, help_text="as it was read; 0 or left out: there is none yet"
    )
    reason = serializers.CharField(
        required=False, default="", allow_blank=True, max_length=500, help_text="kept with the change"
    )


class Quotas(APIView):
    @extend_schema(responses=listed(QuotaOut))
    def get(self, request: Request, slug: str) -> Response:
        """Of each GPU type for which the team has one."""
        return Response({"results": QuotaOut(_seen_by(actor_of(request), slug), many=True).data})


class OneQuota(APIView):
    @extend_schema(responses=QuotaOut)
    def get(self, request: Request, slug: str, gpu_type: str) -> Response:
        """What the team may hold of this type, and holds."""
        return Response(QuotaOut(_one(actor_of(request), slug, gpu_type)).data)

    @extend_schema(request=QuotaIn, responses=QuotaOut)
    def put(self, request: Request, slug: str, gpu_type: str) -> Response:
        """Set what the team may hold of this type, for its leads."""
        actor = actor_of(request)
        require(actor, "quota.edit", slug)
        wish = dict(sent(QuotaIn, request))
        team = accounts.team(slug).slug
        services.edit_quota(actor, team, gpu_type, cause=wish.pop("reason"), **wish)
        return Response(QuotaOut(_one(actor, slug, gpu_type)).data)


def _one(actor: Actor, slug: str, gpu_type: str) -> QuotaView:
    for quota in _seen_by(actor, slug):
        if quota.gpu_type == gpu_type:
            return quota
    raise TrainmasterError("not_found", what=f"quota of {slug} for {gpu_type}")


def _seen_by(actor: Actor, slug: str) -> tuple[QuotaView, ...]:
    require(actor, "quota.view", slug)
    return queries.quotas(accounts.team(slug).slug)
