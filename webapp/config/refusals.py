"""Answers to requests that no view has seen, in the form that their address has."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from platform_core.errors import TrainmasterError
from webapp.base import problems
from webapp.mlflow.errors import translated

Send = Callable[[Mapping[str, Any]], Awaitable[None]] | Callable[..., Awaitable[None]]
_RETRY = {"unavailable": b"10"}


async def refuse(
    scope: Mapping[str, Any], send: Send, code: str, *, closing: bool = False, **numbers: Any
) -> None:
    """`closing`: the rest of the request is not read."""
    error = TrainmasterError(code, **numbers)
    body = problems.document(error)
    path, status = scope["path"], body["status"]
    if path.startswith("/api/v1/"):
        kind, content = problems.MEDIA_TYPE, json.dumps(body).encode()
    elif path.startswith(("/api/", "/ajax-api/")):
        kind, content = "application/json", translated(error, status).response.content
    else:
        kind, content = "text/plain; charset=utf-8", (body["detail"] + "\n").encode()
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(content)).encode())]
    if code in _RETRY:
        headers.append((b"retry-after", _RETRY[code]))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if closing:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
