"""The files of a run over REST: list, send, read with ranges, delete; large ones in parts."""

import io
from collections.abc import Iterable
from typing import IO, Any, cast

from django.http import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from webapp.accounts.queries import actor_of
from webapp.base.downloads import download
from webapp.experiments import queries, services
from webapp.rest.artifacts import StreamParser
from webapp.rest.openapi import listed


class FileOut(serializers.Serializer[Any]):
    path = serializers.CharField()
    is_folder = serializers.BooleanField()
    size = serializers.IntegerField(allow_null=True)


class NewRunFileUpload(serializers.Serializer[Any]):
    path = serializers.CharField(max_length=1000)
    parts = serializers.IntegerField(min_value=1, max_value=10_000)


_SENT: dict[str, Any] = {
    "path": serializers.CharField(),
    "size": serializers.IntegerField(),
    "sha256": serializers.CharField(),
}


_UPLOAD: dict[str, Any] = {"id": serializers.CharField(), "parts": serializers.IntegerField()}
_PART: dict[str, Any] = {"size": serializers.IntegerField()}


class RunFiles(APIView):
    @extend_schema(
        parameters=[OpenApiParameter("folder", str, description="List what lies in this folder.")],
        responses=listed(FileOut),
    )
    def get(self, request: Request, run_id: str) -> Response:
        """List the files of a run in one folder."""
        actor = actor_of(request)
        files = services.list_files(actor, queries.find_run(actor, run_id), request.GET.get("folder", ""))
        return Response({"results": FileOut(files, many=True).data})


class RunFile(APIView):
    parser_classes = [StreamParser]

    @extend_schema(
        request={"application/octet-stream": bytes}, responses={201: inline_serializer("RunFileSent", _SENT)}
    )
    def put(self, request: Request, run_id: str, path: str) -> Response:
        """Send one file of a run. The same path again replaces it."""
        actor = actor_of(request)
        body = io.BytesIO() if request.stream is None else cast(IO[bytes], request.data)
        row = services.put_file(actor, queries.find_run(actor, run_id), path, body)
        return Response({"path": row.path, "size": row.size, "sha256": row.sha256}, status=201)

    @extend_schema(responses={(200, "application/octet-stream"): OpenApiTypes.BINARY})
    def get(self, request: Request, run_id: str, path: str) -> HttpResponseBase:
        """Read one file of a run. The header Range takes one range of bytes."""
        actor = actor_of(request)
        run = queries.find_run(actor, run_id)
        size = services.read_file(actor, run, path, 0, 0).size

        def read(offset: int, length: int) -> Iterable[bytes]:
            return services.read_file(actor, run, path, offset, length).blocks

        return download(request._request, path, size, read)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, run_id: str, path: str) -> Response:
        """Delete a file of a run, or a folder with all in it."""
        actor = actor_of(request)
        if not services.delete_files(actor, queries.find_run(actor, run_id), path):
            raise TrainmasterError("not_found", what=f"file {path[:200]}")
        return Response(status=204)


class RunFileUploads(APIView):
    @extend_schema(request=NewRunFileUpload, responses={201: inline_serializer("RunFileUpload", _UPLOAD)})
    def post(self, request: Request, run_id: str) -> Response:
        """Announce a large file in numbered parts. Send the parts, then complete it."""
        body = NewRunFileUpload(data=request.data)
        body.is_valid(raise_exception=True)
        actor = actor_of(request)
        upload = services.start_upload(actor, queries.find_run(actor, run_id), **body.validated_data)
        return Response({"id": upload.id, "parts": upload.parts}, status=201)


class RunFileUpload(APIView):
    parser_classes = [StreamParser]

    @extend_schema(
        operation_id="runs_uploads_complete",
        request=None,
        responses={201: inline_serializer("RunFileJoined", _SENT)},
    )
    def post(self, request: Request, run_id: str, upload_id: str) -> Response:
        """Join the parts of an announced file."""
        actor = actor_of(request)
        row = services.complete_upload(actor, queries.find_run(actor, run_id), upload_id)
        return Response({"path": row.path, "size": row.size, "sha256": row.sha256}, status=201)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, run_id: str, upload_id: str) -> Response:
        """Give an announced file up."""
        actor = actor_of(request)
        services.abort_upload(actor, queries.find_run(actor, run_id), upload_id)
        return Response(status=204)


class RunFilePart(APIView):
    parser_classes = [StreamParser]

    @extend_schema(
        request={"application/octet-stream": bytes}, responses={201: inline_serializer("RunFilePart", _PART)}
    )
    def put(self, request: Request, run_id: str, upload_id: str, number: int) -> Response:
        """Send one part of an announced file, counted from 1."""
        actor = actor_of(request)
        services.check_upload(actor, queries.find_run(actor, run_id), upload_id)
        body = io.BytesIO() if request.stream is None else cast(IO[bytes], request.data)
        return Response({"size": services.receive_part(upload_id, number, body)}, status=201)
