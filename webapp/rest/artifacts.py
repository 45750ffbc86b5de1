"""Uploads of code, datasets and models over REST."""

import io
from typing import IO, Any, cast

from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.queries import actor_of
from webapp.artifacts import queries, services


class StreamParser(BaseParser):
    """Leaves the body alone: a file is streamed into the store, never held in memory."""

    media_type = "*/*"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        return stream


class NewUpload(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=services.UPLOAD_KINDS)
    team = serializers.CharField(max_length=60)
    name = serializers.CharField(max_length=120, required=False, default="", allow_blank=True)
    resume = serializers.BooleanField(
        default=False, help_text="Go on with your newest upload of this kind and name that is not complete."
    )


class EarlierFile(serializers.Serializer[Any]):
    path = serializers.CharField(trim_whitespace=False, help_text="In the new upload.")
    sha256 = serializers.CharField(max_length=64, help_text="Of the file in the earlier one.")


class EarlierFiles(serializers.Serializer[Any]):
    manifest = serializers.CharField(
        max_length=40, help_text="Of an earlier upload of the team, of the same kind."
    )
    files = serializers.ListField(
        child=EarlierFile(),
        max_length=services.TAKEN_AT_ONCE,
        error_messages={"max_length": "One request takes at most {max_length} files; send several."},
    )


class CompleteUpload(serializers.Serializer[Any]):
    files = serializers.IntegerField(
        min_value=1, required=False, help_text="How many files were sent; a mismatch is refused."
    )
    executable = serializers.ListField(
        child=serializers.CharField(trim_whitespace=False), required=False, default=list,
        help_text="Paths of files that are programs: a job gets them with the right to run.",
    )  # fmt: skip


_UPLOAD: dict[str, Any] = {
    "id": serializers.CharField(),
    "files": serializers.DictField(
        child=serializers.DictField(), help_text="Path to sha256 and size of what was received before."
    ),
}
_MANIFEST: dict[str, Any] = {
    "manifest": serializers.CharField(),
    "files": serializers.IntegerField(),
    "bytes": serializers.IntegerField(),
}


_TAKEN: dict[str, Any] = {
    "taken": serializers.ListField(child=serializers.CharField(), help_text="Paths that need not be sent."),
    "missing": serializers.ListField(
        child=serializers.CharField(),
        help_text="Paths to send: the earlier upload has no such file, or lost it.",
    ),
}
_FILE: dict[str, Any] = {"sha256": serializers.CharField(), "size": serializers.IntegerField()}


class Uploads(APIView):
    @extend_schema(request=NewUpload, responses={201: inline_serializer("Upload", _UPLOAD)})
    def post(self, request: Request) -> Response:
        """Start an upload. Send its files, then complete it."""
        wanted = NewUpload(data=request.data)
        wanted.is_valid(raise_exception=True)
        upload = services.start_upload(actor_of(request), **wanted.validated_data)
        return Response({"id": upload.id, "files": queries.received(upload.id)}, status=201)


class UploadFile(APIView):
    parser_classes = [StreamParser]

    @extend_schema(
        request={"application/octet-stream": bytes},
        responses={201: inline_serializer("UploadedFile", _FILE)},
    )
    def put(self, request: Request, upload_id: str, path: str) -> Response:
        """Send one file of an upload, under its path in the bundle."""
        # An empty file, such as an __init__.py, has no body to parse.
        body = io.BytesIO() if request.stream is None else cast(IO[bytes], request.data)
        part = services.receive_file(actor_of(request), upload_id, path, body)
        return Response({"sha256": part.entry.sha256, "size": part.entry.size}, status=201)


class UploadEarlierFiles(APIView):
    @extend_schema(request=EarlierFiles, responses=inline_serializer("EarlierFilesTaken", _TAKEN))
    def post(self, request: Request, upload_id: str) -> Response:
        """Take files of an upload from an earlier one of the team, instead of sending them again."""
        wanted = EarlierFiles(data=request.data)
        wanted.is_valid(raise_exception=True)
        files = [(file["path"], file["sha256"]) for file in wanted.validated_data["files"]]
        manifest = wanted.validated_data["manifest"]
        taken = set(services.take_files(actor_of(request), upload_id, manifest, files))
        paths = [path for path, _ in files]
        return Response(
            {
                "taken": [path for path in paths if path in taken],
                "missing": [path for path in paths if path not in taken],
            }
        )


class UploadCompletion(APIView):
    @extend_schema(request=CompleteUpload, responses={201: inline_serializer("ManifestMade", _MANIFEST)})
    def post(self, request: Request, upload_id: str) -> Response:
        """Complete an upload: its files become a manifest, which jobs, datasets and models refer to."""
        wanted = CompleteUpload(data=request.data)
        wanted.is_valid(raise_exception=True)
        sent = wanted.validated_data
        manifest = services.complete_upload(
            actor_of(request), upload_id, sent.get("files"), sent["executable"]
        )
        return Response(
            {"manifest": manifest.id, "files": manifest.files, "bytes": manifest.total_bytes}, status=201
        )
