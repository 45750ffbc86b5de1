"""Nodes over REST."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.units import DAY_MS, MINUTE_MS
from webapp.accounts.permissions import Actor, require
from webapp.accounts.queries import actor_of
from webapp.jobs import occupancy
from webapp.nodes import queries, services
from webapp.nodes.models import Node
from webapp.nodes.queries import Window
from webapp.rest.enums import NodeState
from webapp.rest.openapi import listed


class NodeJob(serializers.Serializer):
    id = serializers.CharField(help_text="Empty for a job of another team.")
    name = serializers.CharField()


class NodeOut(serializers.Serializer):
    id = serializers.CharField()
    hostname = serializers.CharField(source="name")
    rack = serializers.CharField()
    block = serializers.CharField()
    state = serializers.ChoiceField(choices=NodeState)
    reason = serializers.CharField(source="note", help_text="Why it takes no jobs; empty if it does.")
    gpu_type = serializers.CharField()
    labels = serializers.ListField(
        child=serializers.CharField(), help_text="NAME=VALUE, set by the agent and by operators."
    )
    taints = serializers.ListField(child=serializers.CharField())
    spot = serializers.BooleanField(help_text="The provider may reclaim the machine at short notice.")
    leaving_ms = serializers.IntegerField(
        allow_null=True, help_text="When the machine is reclaimed, after a notice."
    )
    slots = serializers.IntegerField()
    slots_in_use = serializers.IntegerField(source="busy")
    utilisation = serializers.FloatField(allow_null=True, help_text="Percent, mean of the slots in use.")
    memory_bytes = serializers.IntegerField(source="memory_total")
    memory_used_bytes = serializers.IntegerField(source="memory_used", allow_null=True)
    disk_free_bytes = serializers.IntegerField(source="disk_free", allow_null=True)
    agent_version = serializers.CharField()
    versions = serializers.DictField(
        child=serializers.CharField(),
        help_text="Installed versions of python, torch, cuda, nccl and driver; a missing one is not installed.",
    )
    hardware_faults = serializers.ListField(
        child=serializers.CharField(),
        help_text="Faults of GPUs, as sentences. Faulty GPUs are not among the slots.",
    )
    out_of_service = serializers.CharField(
        allow_blank=True, help_text="Why its devices keep all jobs away; empty if they do not."
    )
    slots_out_of_service = serializers.DictField(
        child=serializers.CharField(), help_text="By slot, why it takes no jobs."
    )
    last_seen_ms = serializers.IntegerField(source="seen_ms", help_text="Time of the last heartbeat.")
    jobs = NodeJob(many=True)


class Nodes(APIView):
    @extend_schema(responses=listed(NodeOut))
    def get(self, request: Request) -> Response:
        """List all nodes, those that need attention first. Jobs of other teams are listed without their names."""
        actor = actor_of(request)
        require(actor, "node.view")
        rows: list[dict[str, Any]] = occupancy.rows(actor, occupancy.look(list(Node.objects.all())))
        return Response({"results": NodeOut(rows, many=True).data})


class NodeMarks(serializers.Serializer):
    """Replaces what operators set before. A field that is left out stays as it is."""

    labels = serializers.DictField(child=serializers.CharField(), required=False)
    taints = serializers.ListField(child=serializers.CharField(), required=False)


class OneNode(APIView):
    @extend_schema(request=NodeMarks, responses=NodeOut)
    def patch(self, request: Request, node_id: str) -> Response:
        """Set labels and taints of a node (id or hostname). For platform admins."""
        actor = actor_of(request)
        require(actor, "node.operate")
        marks = NodeMarks(data=request.data)
        marks.is_valid(raise_exception=True)
        node = services.mark(
            actor,
            queries.id_of(node_id),
            labels=marks.validated_data.get("labels"),
            taints=marks.validated_data.get("taints"),
        )
        return Response(_shown(actor, node.id))


class DrainIn(serializers.Serializer):
    reason = serializers.CharField(required=False, allow_blank=True, default="", max_length=200)
    seconds = serializers.IntegerField(
        required=False,
        allow_null=True,
        default=None,
        min_value=MINUTE_MS // 1000,
        max_value=30 * DAY_MS // 1000,
        help_text="Book maintenance from now for this long. Without it the node stays drained until it is resumed.",
    )


class Drain(APIView):
    @extend_schema(request=DrainIn, responses=NodeOut)
    def post(self, request: Request, node_id: str) -> Response:
        """Drain a node (id or hostname): it takes no new jobs, and running jobs may finish. For platform admins.

        With `seconds` it is maintenance: preemptible jobs save and leave, and the node takes jobs again afterwards.
        """
        actor = actor_of(request)
        require(actor, "node.operate")
        body = DrainIn(data=request.data)
        body.is_valid(raise_exception=True)
        node, seconds, reason = (
            queries.id_of(node_id),
            body.validated_data["seconds"],
            body.validated_data["reason"],
        )
        if seconds is None:
            services.drain(actor, node, reason)
        else:
            services.book_maintenance_now(actor, node, seconds * 1000, reason)
        return Response(_shown(actor, node))


class Resume(APIView):
    @extend_schema(request=None, responses=NodeOut)
    def post(self, request: Request, node_id: str) -> Response:
        """Let a drained node (id or hostname) take jobs again; maintenance of it that has begun ends. For admins."""
        actor = actor_of(request)
        require(actor, "node.operate")
        node = queries.id_of(node_id)
        services.resume(actor, node)
        return Response(_shown(actor, node))


def _shown(actor: Actor, node_id: str) -> Any:
    node = Node.objects.get(id=node_id)
    return NodeOut(occupancy.row(actor, occupancy.look([node]), node)).data


class WindowOut(serializers.Serializer):
    id = serializers.IntegerField()
    nodes = serializers.SerializerMethodField(help_text="Hostnames.")
    begin_ms = serializers.IntegerField()
    end_ms = serializers.IntegerField()
    reason = serializers.CharField()
    booked_by = serializers.CharField()
    begun = serializers.BooleanField()

    def get_nodes(self, window: Window) -> list[str]:
        return [hostname for _, hostname in window.nodes]


class WindowIn(serializers.Serializer):
    nodes = serializers.ListField(child=serializers.CharField(), help_text="Ids or hostnames.")
    begin_ms = serializers.IntegerField(help_text="Milliseconds since 1970; a time in the past means now.")
    end_ms = serializers.IntegerField()
    reason = serializers.CharField(required=False, allow_blank=True, default="", max_length=200)


class Windows(APIView):
    @extend_schema(responses=listed(WindowOut))
    def get(self, request: Request) -> Response:
        """List booked maintenance that is not over, the next first."""
        actor = actor_of(request)
        require(actor, "node.view")
        return Response({"results": WindowOut(queries.maintenance(), many=True).data})

    @extend_schema(request=WindowIn, responses={201: WindowOut})
    def post(self, request: Request) -> Response:
        """Book maintenance. No job is placed there whose time limit reaches into it. For platform admins."""
        actor = actor_of(request)
        require(actor, "node.operate")
        body = WindowIn(data=request.data)
        body.is_valid(raise_exception=True)
        booked = services.book_maintenance(actor, **body.validated_data)
        (window,) = [window for window in queries.maintenance() if window.id == booked.pk]
        return Response(WindowOut(window).data, status=201)


class OneWindow(APIView):
    @extend_schema(responses={204: None})
    def delete(self, request: Request, window_id: int) -> Response:
        """Cancel booked maintenance. If it has begun, its nodes take jobs again. For platform admins."""
        services.cancel_maintenance(actor_of(request), window_id)
        return Response(status=204)


class NoticeIn(serializers.Serializer):
    seconds = serializers.IntegerField(
        default=120, help_text="Seconds until the machine is reclaimed; 120 by default."
    )


class Notice(APIView):
    @extend_schema(request=NoticeIn, responses={202: None})
    def post(self, request: Request, node_id: str) -> Response:
        """Announce that the machine of a node (id or hostname) is about to be reclaimed. For platform admins.

        Its jobs save and move to other nodes, and no new job is placed there.
        """
        actor = actor_of(request)
        require(actor, "node.operate")
        body = NoticeIn(data=request.data)
        body.is_valid(raise_exception=True)
        services.give_notice(actor, queries.id_of(node_id), body.validated_data["seconds"])
        return Response(status=202)
