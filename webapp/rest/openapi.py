"""What the OpenAPI document says of every operation: how lists are wrapped, and what a refusal looks like."""

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import inline_serializer
from rest_framework import serializers

PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "one of those in docs/reference/errors.md"},
        "detail": {"type": "string"},
        "problems": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"field": {"type": "string"}, "sentence": {"type": "string"}},
            },
        },
    },
}


def listed(line: type[serializers.BaseSerializer[Any]], *, paged: bool = False) -> Any:
    """The answer of a list: {"results": […]}, and where it has pages the cursor of the next."""
    fields: dict[str, Any] = {"results": line(many=True)}
    if paged:
        fields["next"] = serializers.CharField(
            allow_null=True, help_text="`cursor` of the next page; null: the last"
        )
    return {200: inline_serializer(f"{line.__name__.removesuffix('Out')}List", fields)}


class Schema(AutoSchema):
    """Every operation may be refused with a problem document."""

    def get_operation_id(self) -> str:
        name = str(super().get_operation_id())
        answers: Any = self.get_response_serializers()
        is_list = isinstance(answers, dict) and type(answers.get(200)).__name__.endswith("List")
        return f"{name.removesuffix('_retrieve')}_list" if is_list else name

    def get_operation(self, *arguments: Any, **names: Any) -> Any:
        operation = super().get_operation(*arguments, **names)
        if operation:
            content = {"application/problem+json": {"schema": PROBLEM}}
            operation["responses"]["default"] = {
                "description": "A refusal, as a problem document",
                "content": content,
            }
        return operation
