"""The calls of workers that run no agent: they register, then say every few seconds what they have."""

from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.authentication import get_authorization_header
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from webapp.deployments.delivery import agentless
from webapp.deployments.delivery.agentless import Said
from webapp.nodes import services as clusters
from webapp.nodes.values import Registration

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
STATES = ("idle", "receiving", "verifying", "complete", "failed")
MOST_BYTES = 2**60


class NewWorker(serializers.Serializer[Any]):
    worker_id = serializers.RegexField(NAME, max_length=60, help_text="as the worker calls itself")
    hostname = serializers.RegexField(NAME, max_length=120)
    rack = serializers.CharField(max_length=60, required=False, default="", allow_blank=True)
    available_storage = serializers.IntegerField(min_value=0, max_value=MOST_BYTES, help_text="bytes")


class NewWorkerOut(serializers.Serializer[Any]):
    worker_id = serializers.CharField()
    node_id = serializers.CharField(
        help_text="as the pages and target_workers call it; the hostname does too"
    )
    credential = serializers.CharField(
        help_text="for every later call, shown this once; empty when it is the one that was shown"
    )
    heartbeat_seconds = serializers.IntegerField(help_text="say something at least that often")


class WorkerSaid(serializers.Serializer[Any]):
    worker_id = serializers.CharField(max_length=60)
    status = serializers.ChoiceField(choices=STATES)
    chunks_received = serializers.ListField(
        child=serializers.IntegerField(min_value=0),
        required=False,
        default=list,
        help_text="numbers of chunks in the manifest that were received and verified",
    )
    bandwidth_in = serializers.FloatField(min_value=0, required=False, default=0.0, help_text="bytes/s")
    bandwidth_out = serializers.FloatField(min_value=0, required=False, default=0.0, help_text="bytes/s")
    deployment_id = serializers.CharField(
        max_length=40, required=False, default="", allow_blank=True, help_text="none: what is to be done next"
    )
    error = serializers.CharField(max_length=500, required=False, default="", allow_blank=True)
    available_storage = serializers.IntegerField(min_value=0, max_value=MOST_BYTES, required=False)


class TaskOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    model = serializers.CharField(source="model_version.model.__str__")
    version = serializers.IntegerField(source="model_version.version")
    source_url = serializers.CharField(help_text="the store folder of its files")
    manifest_id = serializers.CharField(source="model_version.manifest_id")


_ANSWER = inline_serializer(
    "WorkerAnswer",
    {
        "continue": serializers.BooleanField(
            help_text="false: it has everything, the deployment was cancelled, or there is none"
        ),
        "deployment": TaskOut(allow_null=True),
    },
)


class _OfNodes(APIView):
    """Not for people: a bootstrap token or a node's credential in the header, as agents show them."""

    authentication_classes = ()
    permission_classes = ()

    def secret(self, request: Request) -> str:
        scheme, _, text = get_authorization_header(request).decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not text.strip():
            raise TrainmasterError("not_authenticated")
        return text.strip()


class Register(_OfNodes):
    @extend_schema(request=NewWorker, responses={200: NewWorkerOut})
    def post(self, request: Request) -> Response:
        """A worker without the agent becomes a node. With a bootstrap token; again with its credential."""
        secret = self.secret(request)
        asked = NewWorker(data=request.data)
        asked.is_valid(raise_exception=True)
        node_id, credential = clusters.register(secret, Registration(**asked.validated_data))
        told = {"worker_id": asked.validated_data["worker_id"], "node_id": node_id, "credential": credential}
        return Response(NewWorkerOut({**told, "heartbeat_seconds": settings.HEARTBEAT_SECONDS}).data)


class WorkerHeartbeat(_OfNodes):
    @extend_schema(request=WorkerSaid, responses={200: _ANSWER})
    def post(self, request: Request) -> Response:
        """What it has of its deployment, and whether it shall go on."""
        secret = self.secret(request)
        asked = WorkerSaid(data=request.data)
        asked.is_valid(raise_exception=True)
        data = asked.validated_data
        node_id = clusters.worker_heard(secret, data["worker_id"], data.get("available_storage"))
        said = Said(
            data["status"], tuple(data["chunks_received"]), data["bandwidth_in"], data["bandwidth_out"],
            data["deployment_id"], data["error"],
        )  # fmt: skip
        task = agentless.heard(node_id, said)
        told = TaskOut(task.deployment).data if task else None
        return Response({"continue": task is not None and task.goes_on, "deployment": told})
