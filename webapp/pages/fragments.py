"""One template a page; a fragment of it is a named block, rendered alone when the page asks for it again."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.template import Template, loader
from django.template.base import NodeList
from django.template.context import RequestContext
from django.template.loader_tags import BLOCK_CONTEXT_KEY, BlockContext, BlockNode, ExtendsNode


def render(
    request: HttpRequest, template_name: str, context: dict[str, Any], status: int = 200
) -> HttpResponse:
    """The whole page, or with `?block=name` from htmx only that block, so both come out of the same lines.

    What costs something stands in the context as a function: a fragment pays for what it shows.
    """
    context = when_asked(context)
    block = request.GET.get("block")
    if block and request.headers.get("HX-Request"):
        return HttpResponse(render_block(request, template_name, block, context), status=status)
    return HttpResponse(loader.render_to_string(template_name, context, request), status=status)


def when_asked(values: Mapping[str, Any]) -> dict[str, Any]:
    """The functions among them are called when the template first asks for their name, and once."""
    return {name: cache(value) if callable(value) else value for name, value in values.items()}


def render_block(request: HttpRequest, template_name: str, block: str, context: dict[str, Any]) -> str:
    template: Template = loader.get_template(template_name).template  # type: ignore[attr-defined]
    bound = RequestContext(request, context)
    with bound.bind_template(template):
        found = _find(template.nodelist, block, bound)
        if found is None:
            raise Http404(f"{template_name} has no block {block!r}")
        return found.render(bound)


def _find(nodes: NodeList, name: str, context: RequestContext) -> BlockNode | None:
    for node in nodes:
        if isinstance(node, BlockNode) and node.name == name:
            return node
        if isinstance(node, ExtendsNode):
            # blocks inside an included or nested block resolve through this context, as in a whole render
            blocks = BlockContext()
            blocks.add_blocks(node.blocks)
            context.render_context[BLOCK_CONTEXT_KEY] = blocks
            if name in node.blocks:
                return node.blocks[name]
        for attribute in getattr(node, "child_nodelists", ()):
            inner = getattr(node, attribute, None)
            if inner:
                found = _find(inner, name, context)
                if found is not None:
                    return found
    return None
