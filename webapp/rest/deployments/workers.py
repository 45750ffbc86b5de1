"""The calls of workers that run no agent: they register, then send heartbeats."""

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
from webapp.nodes import services as nodes
from webapp.nodes.values import Registration
from webapp.rest.enums import WorkerState

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
MOST_BYTES = 2**60


class NewWorker(serializers.Serializer[Any]):
    worker_id = serializers.RegexField(
        NAME, max_length=60, help_text="Name that the worker chooses for itself."
    )
    hostname = serializers.RegexField(NAME, max_length=120)
    rack = serializers.CharField(max_length=60, required=False, default="", allow_blank=True)
    available_storage = serializers.IntegerField(min_value=0, max_value=MOST_BYTES, help_text="Bytes.")


class NewWorkerOut(serializers.Serializer[Any]):
    worker_id = serializers.CharField()
    node_id = serializers.CharField(
        help_text="Id of the node on pages and in target_workers; the hostname works too."
    )
    credential = serializers.CharField(
        help_text="For all later calls; shown once. Empty when the worker has it already."
    )
    heartbeat_seconds = serializers.IntegerField(help_text="Longest interval between heartbeats.")


class WorkerHeartbeatIn(serializers.Serializer[Any]):
    worker_id = serializers.CharField(max_length=60)
    status = serializers.ChoiceField(choices=WorkerState)
    chunks_received = serializers.ListField(
        child=serializers.IntegerField(min_value=0),
        required=False,
        default=list,
        help_text="Numbers of the chunks of the manifest that were received and verified.",
    )
    bandwidth_in = serializers.FloatField(
        min_value=0, required=False, default=0.0, help_text="Bytes per second."
    )
    bandwidth_out = serializers.FloatField(
        min_value=0, required=False, default=0.0, help_text="Bytes per second."
    )
    deployment_id = serializers.CharField(
        max_length=40,
        required=False,
        default="",
        allow_blank=True,
        help_text="Empty: ask for the next deployment.",
    )
    error = serializers.CharField(max_length=500, required=False, default="", allow_blank=True)
    available_storage = serializers.IntegerField(min_value=0, max_value=MOST_BYTES, required=False)


class TaskOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    model = serializers.CharField(source="model_version.model.__str__")
    version = serializers.IntegerField(source="model_version.version")
    source_url = serializers.CharField(help_text="Folder of its files in the store.")
    manifest_id = serializers.CharField(source="model_version.manifest_id")


_ANSWER = inline_serializer(
    "WorkerAnswer",
    {
        "continue": serializers.BooleanField(
            help_text="false: all files are there, the deployment was cancelled, or there is none."
        ),
        "deployment": TaskOut(allow_null=True),
    },
)


class _OfNodes(APIView):
    """For machines: the header has a bootstrap token or a node's credential."""

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
        """Register a worker without the agent as a node: first with a bootstrap token, later with its credential."""
        secret = self.secret(request)
        body = NewWorker(data=request.data)
        body.is_valid(raise_exception=True)
        node_id, credential = nodes.register(secret, Registration(**body.validated_data))
        answer = {
            "worker_id": body.validated_data["worker_id"],
            "node_id": node_id,
            "credential": credential,
            "heartbeat_seconds": settings.HEARTBEAT_SECONDS,
        }
        return Response(NewWorkerOut(answer).data)


class WorkerHeartbeat(_OfNodes):
    @extend_schema(request=WorkerHeartbeatIn, responses={200: _ANSWER})
    def post(self, request: Request) -> Response:
        """Report what a worker has of its deployment; the answer says whether to continue."""
        secret = self.secret(request)
        body = WorkerHeartbeatIn(data=request.data)
        body.is_valid(raise_exception=True)
        data = body.validated_data
        node_id = nodes.worker_heard(secret, data["worker_id"], data.get("available_storage"))
        report = Said(
            data["status"], tuple(data["chunks_received"]), data["bandwidth_in"], data["bandwidth_out"],
            data["deployment_id"], data["error"],
        )  # fmt: skip
        task = agentless.heard(node_id, report)
        deployment = TaskOut(task.deployment).data if task else None
        return Response({"continue": task is not None and task.goes_on, "deployment": deployment})
