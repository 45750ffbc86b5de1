"""Nodes over REST."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.permissions import require
from webapp.accounts.queries import actor_of
from webapp.clusters import pages, services
from webapp.clusters.models import Node


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
    slots = serializers.IntegerField()
    slots_in_use = serializers.IntegerField(source="busy")
    utilisation = serializers.FloatField(allow_null=True, help_text="percent, mean of the slots in use")
    memory_bytes = serializers.IntegerField(source="memory_total")
    memory_used_bytes = serializers.IntegerField(source="memory_used", allow_null=True)
    disk_free_bytes = serializers.IntegerField(source="disk_free", allow_null=True)
    agent_version = serializers.CharField()
    last_seen_ms = serializers.IntegerField(source="seen_ms")
    jobs = NodeJob(many=True)


class Nodes(APIView):
    @extend_schema(responses=NodeOut(many=True))
    def get(self, request: Request) -> Response:
        """All nodes, what needs attention first. Jobs of other teams have no name here."""
        actor = actor_of(request)
        require(actor, "node.view")
        rows: list[dict[str, Any]] = pages.rows(actor, pages.look(list(Node.objects.all())))
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
        return Response(NodeOut(pages.row(actor, pages.look([node]), node)).data)
