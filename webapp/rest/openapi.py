"""What the OpenAPI document says of every operation: how lists are wrapped, and what a refusal looks like."""

from copy import deepcopy
from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import inline_serializer
from rest_framework import serializers

from platform_core.jobs.spec import SCHEMA as JOB_SCHEMA
from platform_core.retraining.policy import SCHEMA as RETRAINING_SCHEMA
from platform_core.serving.spec import SCHEMA as ENDPOINT_SCHEMA
from platform_core.sweeps.spec import SCHEMA as SWEEP_SCHEMA

SPECS = {
    "JobSpec": JOB_SCHEMA, "SweepSpec": SWEEP_SCHEMA, "EndpointSpec": ENDPOINT_SCHEMA,
    "RetrainingPolicy": RETRAINING_SCHEMA,
}  # fmt: skip
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


def add_specs(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Adds the schemas of the core, after the sets of values are named: that changes the schemas it finds."""
    specs = deepcopy(SPECS)
    specs["SweepSpec"]["properties"]["job"]["nullable"] = True  # trials that run outside have no job
    result["components"]["schemas"] |= specs
    return result


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
