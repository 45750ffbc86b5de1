"""The button that opens a TensorBoard."""

from typing import Any

from django import template
from django.template.context import RequestContext

from webapp.pages.tensorboard import boards

register = template.Library()


@register.inclusion_tag("tensorboard/button.html", takes_context=True)
def tensorboard_button(context: RequestContext, kind: str, reference: object) -> dict[str, Any]:
    """`kind`: run or experiment. Nothing where the platform runs no TensorBoards."""
    return {
        "key": f"{kind}-{reference}" if boards.is_enabled() and reference else "",
        "csrf_token": context.get("csrf_token"),
    }
