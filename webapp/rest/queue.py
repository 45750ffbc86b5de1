"""The queue over REST."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.permissions import require
from webapp.accounts.queries import actor_of
from webapp.base.parsing import whole_number
from webapp.rest.openapi import listed
from webapp.scheduling import queue

MOST = 500
DEFAULT = 100


class QueueEntryOut(serializers.Serializer[queue.QueueEntry]):
    position = serializers.IntegerField(help_text="1 starts next.")
    job = serializers.CharField(source="job_id", help_text="Empty for a job of another team.")
    name = serializers.CharField(help_text='"a job of TEAM" for a job of another team.')
    team = serializers.CharField()
    user = serializers.CharField(help_text="Empty for a job of another team.")
    gpus = serializers.IntegerField(help_text="GPUs that it asks for.")
    gpu_type = serializers.CharField()
    priority = serializers.IntegerField(help_text="0 is the most urgent, 100 the least.")
    since_ms = serializers.IntegerField(help_text="When it was submitted or preempted.")
    preempted = serializers.BooleanField(help_text="It has run before and waits to resume.")
    reserved = serializers.BooleanField(help_text="The scheduler reserves nodes for it.")
    expected_start = serializers.CharField(
        help_text='In words, such as "in 4 min to 20 min"; empty if unknown.'
    )
    earliest_ms = serializers.IntegerField(allow_null=True, help_text="Earliest expected start.")
    latest_ms = serializers.IntegerField(allow_null=True, help_text="Latest expected start; null if unknown.")
    reason = serializers.CharField(help_text="Why it waits; empty for a job of another team.")


class Queue(APIView):
    @extend_schema(
        parameters=[
            OpenApiParameter("limit", OpenApiTypes.INT, description=f"At most {MOST}; {DEFAULT} by default.")
        ],
        responses=listed(QueueEntryOut),
    )
    def get(self, request: Request) -> Response:
        """List the waiting jobs of all teams, next to start first.

        A job of another team shows its team, size and priority only.
        """
        actor = actor_of(request)
        require(actor, "cluster.view")
        limit = whole_number(request.query_params.get("limit", "") or str(DEFAULT), "limit", MOST, 1)
        entries: Any = queue.entries(actor, limit)
        return Response({"results": QueueEntryOut(entries, many=True).data})
