"""The REST API to read: the OpenAPI document as a page of ours, so that it looks and is navigated like the rest."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET
from drf_spectacular.generators import SchemaGenerator

from platform_core.errors import CATALOGUE, ErrorKind
from webapp.pages import fragments

METHODS = ("get", "post", "put", "patch", "delete")
_REFERENCE = "#/components/schemas/"


@dataclass(frozen=True, slots=True)
class ApiDocsPage:
    groups: list[dict[str, Any]]  # name and operations, from the OpenAPI document
    server: str


@login_required
@require_GET
def api_docs(request: HttpRequest) -> HttpResponse:
    return fragments.render(request, "api_docs/reference.html", ApiDocsPage(groups(), settings.PUBLIC_URL))


@dataclass(frozen=True, slots=True)
class ErrorsPage:
    kinds: list[ErrorKind]


@login_required
@require_GET
def errors(request: HttpRequest) -> HttpResponse:
    """The catalogue of errors: a problem document names its line as `type`."""
    return fragments.render(request, "api_docs/errors.html", ErrorsPage(list(CATALOGUE.values())))


@cache
def groups() -> list[dict[str, Any]]:
    """The operations of each part of the API, by address."""
    document = SchemaGenerator().get_schema(request=None, public=True)
    schemas = document.get("components", {}).get("schemas", {})
    by_tag: dict[str, list[dict[str, Any]]] = {}
    for path, methods in sorted(document["paths"].items()):
        for method in METHODS:
            if method in methods:
                told = methods[method]
                by_tag.setdefault(told["tags"][0], []).append(_operation(path, method, told, schemas))
    return [{"name": name.replace("-", " "), "operations": found} for name, found in sorted(by_tag.items())]


def _operation(path: str, method: str, operation: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    description = operation.get("description", "")
    return {
        "id": operation["operationId"],
        "method": method.upper(),
        "path": path,
        "summary": description.split("\n")[0],
        "description": description.partition("\n")[2].strip(),
        "parameters": [
            {
                "name": each["name"],
                "where": each["in"],
                "type": _type(each.get("schema", {})),
                "required": each.get("required", False),
                "description": each.get("description", ""),
            }
            for each in operation.get("parameters", ())
        ],
        "body": list(_fields(_content(operation.get("requestBody", {})), schemas)),
        "body_type": _type(_content(operation.get("requestBody", {}))) if "requestBody" in operation else "",
        "answers": [
            {
                "code": code,
                "type": _type(_content(answer)),
                "fields": list(_fields(_content(answer), schemas)),
            }
            for code, answer in sorted(operation.get("responses", {}).items())
        ],
    }


def _content(holder: dict[str, Any]) -> dict[str, Any]:
    """The schema of a body: of JSON where there is one."""
    kinds: dict[str, Any] = holder.get("content", {})
    chosen: dict[str, Any] = kinds.get("application/json") or next(iter(kinds.values()), {})
    return dict(chosen.get("schema", {}))


def _fields(schema: dict[str, Any], schemas: dict[str, Any]) -> Iterator[dict[str, Any]]:
    name = schema.get("$ref", "").removeprefix(_REFERENCE)
    if schema.get("type") == "array":
        name = schema.get("items", {}).get("$ref", "").removeprefix(_REFERENCE)
    known = schemas.get(name, schema)
    if "results" in known.get("properties", {}):  # a page of a list: what its lines are made of
        yield from _fields(known["properties"]["results"], schemas)
        return
    required = known.get("required", ())
    for field, told in known.get("properties", {}).items():
        yield {
            "name": field,
            "type": _type(told),
            "required": field in required,
            "description": told.get("description", ""),
        }


def _type(schema: dict[str, Any]) -> str:
    """ "integer", "list of Job", "string or null"."""
    if reference := schema.get("$ref", ""):
        return str(reference.removeprefix(_REFERENCE))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {})) or 'anything'}"
    word = str(
        schema.get("format") or schema.get("type") or next(iter(map(_type, schema.get("allOf", ()))), "")
    )
    return f"{word} or null" if schema.get("nullable") else word
