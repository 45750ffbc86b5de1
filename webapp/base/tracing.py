"""One trace id from a request to the tasks that it asks for: in log lines, in events and in the answer."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse

from platform_core.trace_context import trace_id
from trainmaster import structured_logs

log = logging.getLogger(__name__)
ANSWERED = "X-Request-ID"
HEADER = "trainmaster_trace"  # of a task's message
_READS = frozenset({"GET", "HEAD", "OPTIONS"})


def current() -> str:
    """The trace that this request or task belongs to; "" outside of both."""
    return structured_logs.bound_fields().get("trace", "")


class TraceMiddleware:
    """Takes the trace of the caller's `traceparent`, or begins one, and answers with it as X-Request-ID.

    Logs each request that may change something, by the name of its route: an address may hold a secret.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        trace = trace_id(request.headers.get("traceparent", "")) or os.urandom(16).hex()
        with structured_logs.bound(trace=trace):
            begun = time.perf_counter()
            response = self.get_response(request)
            response[ANSWERED] = trace
            if request.method not in _READS:
                match = request.resolver_match
                route = match.view_name if match and match.view_name else "unknown"
                took_ms = (time.perf_counter() - begun) * 1000
                log.info("%s %s answered %d in %.0f ms", request.method, route, response.status_code, took_ms)
            return response


def stamp(headers: dict[str, Any] | None = None, **_: Any) -> None:
    """Before a task is published: its message says which trace asked for it."""
    if headers is not None and (trace := current()):
        headers[HEADER] = trace


def begin(task_id: str = "", task: Any = None, **_: Any) -> None:
    """Before a worker carries out a task. One that the clock asked for begins a trace of its own, named by its id."""
    asked = getattr(task.request, HEADER, None) if task is not None else None
    structured_logs.bind_only(
        trace=str(asked or task_id.replace("-", "")), task=task.name if task is not None else ""
    )


def end(**_: Any) -> None:
    """After a worker has carried out a task."""
    structured_logs.bind_only()
