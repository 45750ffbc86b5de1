"""Nodes over REST."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.permissions import require
from webapp.accounts.queries import actor_of
from webapp.jobs import occupancy
from webapp.nodes import queries, services
from webapp.nodes.models import Node
from webapp.nodes.queries import Window
from webapp.rest.openapi import listed


class NodeJob(serializers.Serializer):
    id = serializers.CharField(help_text="empty for a job of another team")
    name = serializers.CharField()


class NodeOut(serializers.Serializer):
    id = serializers.CharField()
    hostname = serializers.CharField(source="name")
    rack = serializers.CharField()
    block = serializers.CharField()
    state = serializers.CharField(help_text="ready, suspect, lost, draining, drained or revoked")
    reason = serializers.CharField(source="note", help_text="why it is not ready")
    gpu_type = serializers.CharField()
    labels = serializers.ListField(
        child=serializers.CharField(), help_text="NAME=VALUE, of agent and operators"
    )
    taints = serializers.ListField(child=serializers.CharField())
    spot = serializers.BooleanField(help_text="may be taken away at short notice")
    leaving_ms = serializers.IntegerField(allow_null=True, help_text="when it goes, after a notice")
    slots = serializers.IntegerField()
    slots_in_use = serializers.IntegerField(source="busy")
    utilisation = serializers.FloatField(allow_null=True, help_text="percent, mean of the slots in use")
    memory_bytes = serializers.IntegerField(source="memory_total")
    memory_used_bytes = serializers.IntegerField(source="memory_used", allow_null=True)
    disk_free_bytes = serializers.IntegerField(source="disk_free", allow_null=True)
    agent_version = serializers.CharField()
    versions = serializers.DictField(
        child=serializers.CharField(),
        help_text="of what runs its jobs: python, torch, cuda, nccl, driver; absent where it has none",
    )
    hardware_faults = serializers.ListField(
        child=serializers.CharField(),
        help_text="sentences: GPUs that do not answer; they are not among the slots",
    )
    last_seen_ms = serializers.IntegerField(source="seen_ms")
    jobs = NodeJob(many=True)


class Nodes(APIView):
    @extend_schema(responses=listed(NodeOut))
    def get(self, request: Request) -> Response:
        """All nodes, what needs attention first. Jobs of other teams have no name here."""
        actor = actor_of(request)
        require(actor, "node.view")
        rows: list[dict[str, Any]] = occupancy.rows(actor, occupancy.look(list(Node.objects.all())))
        return Response({"results": NodeOut(rows, many=True).data})


class NodeMarks(serializers.Serializer):
    """Replaces what operators gave before; a field that is left out stays as it is."""

    labels = serializers.DictField(child=serializers.CharField(), required=False)
    taints = serializers.ListField(child=serializers.CharField(), required=False)


class OneNode(APIView):
    @extend_schema(request=NodeMarks, responses=NodeOut)
    def patch(self, request: Request, node_id: str) -> Response:
        """Labels and taints of a node, for platform admins."""
        actor = actor_of(request)
        require(actor, "node.operate")
        marks = NodeMarks(data=request.data)
        marks.is_valid(raise_exception=True)
        node = services.mark(
            actor,
            node_id,
            labels=marks.validated_data.get("labels"),
            taints=marks.validated_data.get("taints"),
        )
        return Response(NodeOut(occupancy.row(actor, occupancy.look([node]), node)).data)


class WindowOut(serializers.Serializer):
    id = serializers.IntegerField()
    nodes = serializers.SerializerMethodField(help_text="hostnames")
    begin_ms = serializers.IntegerField()
    end_ms = serializers.IntegerField()
    reason = serializers.CharField()
    booked_by = serializers.CharField()
    begun = serializers.BooleanField()

    def get_nodes(self, window: Window) -> list[str]:
        return [hostname for _, hostname in window.nodes]


class WindowIn(serializers.Serializer):
    nodes = serializers.ListField(child=serializers.CharField(), help_text="ids or hostnames")
    begin_ms = serializers.IntegerField(help_text="milliseconds since 1970; in the past means now")
    end_ms = serializers.IntegerField()
    reason = serializers.CharField(required=False, allow_blank=True, default="", max_length=200)


class Windows(APIView):
    @extend_schema(responses=listed(WindowOut))
    def get(self, request: Request) -> Response:
        """Booked maintenance that is not over, the next first."""
        actor = actor_of(request)
        require(actor, "node.view")
        return Response({"results": WindowOut(queries.maintenance(), many=True).data})

    @extend_schema(request=WindowIn, responses={201: WindowOut})
    def post(self, request: Request) -> Response:
        """Book maintenance, for platform admins: no job is placed there whose limit reaches into it."""
        actor = actor_of(request)
        require(actor, "node.operate")
        asked = WindowIn(data=request.data)
        asked.is_valid(raise_exception=True)
        window = services.book_maintenance(actor, **asked.validated_data)
        (row,) = [each for each in queries.maintenance() if each.id == window.pk]
        return Response(WindowOut(row).data, status=201)


class OneWindow(APIView):
    @extend_schema(responses={204: None})
    def delete(self, request: Request, window_id: int) -> Response:
        """Cancel it; if it has begun, its nodes take work again."""
        services.cancel_maintenance(actor_of(request), window_id)
        return Response(status=204)


class NoticeIn(serializers.Serializer):
    seconds = serializers.IntegerField(default=120, help_text="until the machine is taken away")


class Notice(APIView):
    @extend_schema(request=NoticeIn, responses={202: None})
    def post(self, request: Request, node_id: str) -> Response:
        """The machine is about to be taken away: its jobs save and move, nothing new is placed. For platform admins."""
        asked = NoticeIn(data=request.data)
        asked.is_valid(raise_exception=True)
        services.give_notice(actor_of(request), node_id, asked.validated_data["seconds"])
        return Response(status=202)
