"""The rich values of runs over REST: images, tables, histograms, texts and sounds."""

from typing import Any

from django.http import HttpResponse
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from platform_core.errors import TrainmasterError
from platform_core.experiments import rich_values as core
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.base.parsing import whole_number
from webapp.experiments import queries, rich_values
from webapp.experiments.models import RichValue
from webapp.rest.bodies import JsonParser, sent
from webapp.rest.run_metrics import KeyField

SUFFIXES = {
    "image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp",
    "audio/mpeg": ".mp3", "audio/ogg": ".ogg", "audio/flac": ".flac", "audio/wav": ".wav",
}  # fmt: skip
# Whatever the bytes are: they run nothing, load nothing and are not taken for another type.
SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, max-age=3600",
}


class KeyOut(serializers.Serializer[Any]):
    key = serializers.CharField()
    kind = serializers.CharField(help_text="Of its newest value: image, table, histogram, text or audio.")
    values = serializers.IntegerField()
    first_step = serializers.IntegerField()
    last_step = serializers.IntegerField()


class ValueOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    key = serializers.CharField()
    step = serializers.IntegerField()
    index = serializers.IntegerField(help_text="Among the values that were logged together.")
    kind = serializers.CharField(help_text="image, table, histogram, text or audio")
    at_ms = serializers.IntegerField()
    caption = serializers.CharField()
    size = serializers.IntegerField(help_text="Bytes of an image or a sound; 0 for a document.")
    media_type = serializers.CharField(help_text="Of an image or a sound, by its first bytes.")


class WholeValueOut(ValueOut):
    document = serializers.JSONField(allow_null=True, help_text="A table, a histogram or a text.")


class ValuesOut(serializers.Serializer[Any]):
    keys = KeyOut(many=True, required=False, help_text="Without `key`.")
    results = WholeValueOut(many=True, required=False, help_text="With `key`: the values of one step.")
    steps = serializers.ListField(
        child=serializers.IntegerField(), required=False, help_text="With `key`: its steps, in order."
    )


class NewValue(serializers.Serializer[Any]):
    key = KeyField()
    step = serializers.IntegerField()
    index = serializers.IntegerField(default=0)
    type = serializers.CharField(max_length=40, help_text="image, table, histogram, text or audio")
    at_ms = serializers.IntegerField(required=False)
    caption = serializers.CharField(max_length=core.MAX_CAPTION, required=False, default="", allow_blank=True)
    document = serializers.JSONField(required=False, help_text="Of a table, a histogram or a text.")
    file = serializers.FileField(
        required=False, allow_empty_file=True, help_text="Of an image or a sound, as multipart/form-data."
    )


class RunValues(APIView):
    parser_classes = [JsonParser, MultiPartParser]

    @extend_schema(
        parameters=[
            OpenApiParameter("key", description="One key: its steps, and its values at one of them."),
            OpenApiParameter("step", OpenApiTypes.INT, description="The step; the last one without it."),
        ],
        responses={200: ValuesOut},
    )
    def get(self, request: Request, run_id: str) -> Response:
        """List the keys of a run's images, tables, histograms, texts and sounds, or the values of one key."""
        actor = actor_of(request)
        run = queries.find_run(actor, run_id)
        key, text = request.query_params.get("key", ""), request.query_params.get("step", "")
        if not key:
            return Response({"keys": KeyOut(rich_values.keys(actor, run), many=True).data})
        steps = rich_values.steps(actor, run, key)
        step = whole_number(text, "step") if text else steps[-1] if steps else 0
        rows = rich_values.at_step(actor, run, key, step)
        return Response({"steps": steps, "results": WholeValueOut(rows, many=True).data})

    @extend_schema(
        request={"application/json": NewValue, "multipart/form-data": NewValue}, responses={201: ValueOut}
    )
    def post(self, request: Request, run_id: str) -> Response:
        """Log one value. The same key, step and index again replaces it."""
        actor = actor_of(request)
        run = queries.find_run(actor, run_id)
        body = sent(NewValue, request)
        file = body.get("file")
        if file is not None and file.size > core.MAX_FILE_BYTES:
            size, limit = f"{file.size:,} bytes", f"{core.MAX_FILE_BYTES:,}"
            raise TrainmasterError("too_large", what="the file", size=size, limit=limit)
        value = core.checked(
            key=body["key"], step=body["step"], index=body["index"], kind=body["type"],
            at_ms=body.get("at_ms", now_ms()), caption=body["caption"], document=body.get("document"),
            data=file.read() if file is not None else b"",
        )  # fmt: skip
        return Response(ValueOut(rich_values.log_value(actor, run, value)).data, status=201)


class RunValueFile(APIView):
    @extend_schema(
        responses={(200, kind): OpenApiTypes.BINARY for kind in (*SUFFIXES, "application/octet-stream")}
    )
    def get(self, request: Request, run_id: str, value_id: int) -> HttpResponse:
        """Read the bytes of an image, to be shown, or of a sound, to be saved."""
        actor = actor_of(request)
        value = rich_values.find_by_id(actor, queries.find_run(actor, run_id), value_id)
        if not value.place:
            raise TrainmasterError("not_found", what=f"file of value {value_id}")
        return file_answer(value)


def file_answer(value: RichValue) -> HttpResponse:
    """Shown where it is an image whose first bytes say so, else saved; never run as a page."""
    kind = value.media_type if value.media_type in SUFFIXES else "application/octet-stream"
    name = f"{value.key.replace('/', '-')}-{value.step}-{value.index}{SUFFIXES.get(kind, '.bin')}"
    disposition = content_disposition_header(not kind.startswith("image/"), name)
    content = b"".join(rich_values.read(value, 0, value.size))  # 10 MiB at most
    headers = SAFE_HEADERS | {"Content-Disposition": disposition or "attachment"}
    return HttpResponse(content, content_type=kind, headers=headers)
