"""Bodies of the REST API are JSON and nothing else, and have no field that nobody reads."""

import io
import json
import zlib
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser
from rest_framework.request import Request
from rest_framework.serializers import Serializer

from platform_core.errors import TrainmasterError

MAX_NESTING = 50


def _is_nested_beyond(value: Any, depth: int) -> bool:
    """Without recursion, which is what such a body wants to break."""
    level = [value]
    for _ in range(depth):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def _has_lone_surrogate(value: Any) -> bool:
    """Such text can neither be kept nor sent back in a sentence."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _decompressed(stream: Any) -> io.BytesIO:
    """The JSON of a body with Content-Encoding: gzip, up to the limit of any body."""
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        data = decoder.decompress(stream.read(limit), limit + 1)
    except zlib.error as error:
        raise ParseError(f"The body is not gzip, as its Content-Encoding says: {error}.") from error
    if len(data) > limit:
        raise TrainmasterError("too_large", what="the body", size=f"over {limit:,} bytes", limit=f"{limit:,}")
    if not decoder.eof:
        raise ParseError("The compressed body is torn: its end is missing.")
    return io.BytesIO(data)


class JsonParser(JSONParser):
    def parse(
        self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        request = (parser_context or {}).get("request")
        if request is not None and request.headers.get("Content-Encoding", "").lower() == "gzip":
            stream = _decompressed(stream)
        try:
            body = super().parse(stream, media_type, parser_context)
        except RecursionError:
            raise ParseError("The JSON is nested too deeply.") from None
        if _is_nested_beyond(body, MAX_NESTING):
            raise ParseError(f"The JSON is nested too deeply; the limit is {MAX_NESTING} levels.")
        if _has_lone_surrogate(body):
            raise ParseError(
                "The JSON has half a surrogate pair (such as \\ud800 alone), which is no character."
            )
        return body


def sent(shape: type[Serializer[Any]], request: Request) -> Any:
    """The fields that were sent. An unknown field is refused: ignoring it silently would mislead."""
    if isinstance(request.data, dict) and (unknown := sorted(request.data.keys() - shape().fields.keys())):
        known = ", ".join(shape().fields)
        raise TrainmasterError(
            "request_invalid", what=f"The field {unknown[0]!r}", why=f"there is no such field; use {known}"
        )
    body = shape(data=request.data)
    body.is_valid(raise_exception=True)
    return body.validated_data
