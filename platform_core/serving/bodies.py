"""The rows of a request and of its answer, whichever protocol they came by."""

from __future__ import annotations

import json
import math
from typing import Any


def document_of(body: bytes) -> dict[str, Any]:
    """{} for what is no JSON object."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):  # also what is no UTF-8
        return {}
    return document if isinstance(document, dict) else {}


def asked(request: dict[str, Any]) -> list[Any]:
    """A prompt, the rows of plain JSON, or those of one tensor of KServe v2. [] where it has none of them."""
    prompt = request.get("prompt")
    if prompt is not None:
        return prompt if isinstance(prompt, list) else [prompt]
    return _rows(request.get("inputs"))


def answered(answer: dict[str, Any]) -> list[Any]:
    """As `asked`; of completions their texts."""
    choices = answer.get("choices")
    if isinstance(choices, list):
        return [one.get("text") if isinstance(one, dict) else None for one in choices]
    return _rows(answer.get("outputs"))


def _rows(value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        return []
    first = value[0]
    if (
        isinstance(first, dict)
        and isinstance(first.get("data"), list)
        and isinstance(first.get("shape"), list)
    ):
        sizes = [one for one in first["shape"][1:] if isinstance(one, int)]
        data, size = first["data"], max(1, math.prod(sizes))
        if not sizes:
            return list(data)
        return [data[start : start + size] for start in range(0, len(data), size)]
    return value
