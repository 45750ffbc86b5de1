"""One template a page; a fragment of it is a named block, rendered alone when the page asks for it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any

from django.http import Http404, HttpRequest, HttpResponse
from django.template import loader
from render_block import BlockNotFound, render_block_to_string

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def render(
    request: HttpRequest,
    template_name: str,
    page: DataclassInstance | Mapping[str, Any],
    status: int = 200,
) -> HttpResponse:
    """Returns the whole page, or with `?block=name` from htmx only that block.

    `page` is a frozen dataclass that names every variable of the template. A field that is a function is called when
    the template first uses its name: a fragment pays only for what it shows.
    """
    context = when_asked(page if isinstance(page, Mapping) else values_of(page))
    block = request.GET.get("block")
    if block and request.headers.get("HX-Request"):
        return HttpResponse(render_block(request, template_name, block, context), status=status)
    return HttpResponse(loader.render_to_string(template_name, context, request), status=status)


def values_of(page: DataclassInstance) -> dict[str, Any]:
    """Returns the fields by name, without copying the values inside them."""
    return {field.name: getattr(page, field.name) for field in fields(page)}


def when_asked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Caches the functions among the values: the template calls each of them once, when it first uses the name."""
    return {name: cache(value) if callable(value) else value for name, value in values.items()}


def render_block(request: HttpRequest, template_name: str, block: str, context: dict[str, Any]) -> str:
    try:
        return render_block_to_string(template_name, block, context, request)
    except BlockNotFound as error:
        raise Http404(f"{template_name} has no block {block!r}.") from error
