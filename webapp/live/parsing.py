"""Bodies of the REST API are JSON and nothing else, and have no field that nobody reads."""

from collections.abc import Mapping
from typing import Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser
from rest_framework.request import Request
from rest_framework.serializers import Serializer

from platform_core.errors import TrainmasterError


class JsonParser(JSONParser):
    def parse(
        self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        try:
            return super().parse(stream, media_type, parser_context)
        except RecursionError:
            raise ParseError("The JSON is nested too deeply.") from None


def sent(shape: type[Serializer[Any]], request: Request) -> Any:
    """The fields that were sent. One that does not exist is no wish that could be left unfulfilled silently."""
    if isinstance(request.data, dict) and (unknown := sorted(request.data.keys() - shape().fields.keys())):
        known = ", ".join(shape().fields)
        raise TrainmasterError(
            "request_invalid", what=f"The field {unknown[0]!r}", why=f"there are only {known} here"
        )
    asked = shape(data=request.data)
    asked.is_valid(raise_exception=True)
    return asked.validated_data
