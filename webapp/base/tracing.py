"""One trace from a request to the tasks that it asks for: in log lines, in events, in the answer, and as spans."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse

from platform_core.spans import Kind, Span, Value
from platform_core.trace_context import header, parent_id, span_id, trace_id
from trainmaster import structured_logs
from webapp.base import spans

log = logging.getLogger(__name__)
ANSWERED = "X-Request-ID"
HEADER = "trainmaster_trace"  # of a task's message
ASKED_BY = "trainmaster_span"  # of a task's message, where spans are sent: that of whoever asked for it
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_span: ContextVar[str] = ContextVar("span", default="")  # of the request or task at hand


@dataclass(frozen=True, slots=True)
class _Task:
    span: str
    parent: str
    name: str
    service: str
    began_ms: float


_task: ContextVar[_Task | None] = ContextVar("task_span", default=None)


def current() -> str:
    """The trace that this request or task belongs to; "" outside of both."""
    return structured_logs.bound_fields().get("trace", "")


def traceparent_of(*names: str) -> str:
    """The context of a span below the request or task at hand, and of a trace of its own outside of both."""
    return header(current() or os.urandom(16).hex(), span_id(*names))


def current_span() -> str:
    return _span.get()


@contextmanager
def _within(span: str) -> Iterator[None]:
    token = _span.set(span)
    try:
        yield
    finally:
        _span.reset(token)


class TraceMiddleware:
    """Takes the trace of the caller's `traceparent`, or begins one, and answers with it as X-Request-ID.

    Logs each request that may change something, by the name of its route: an address may hold a secret. Of these, and
    of those whose caller has a trace, a span is sent.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("traceparent", "")
        trace, parent = trace_id(given) or os.urandom(16).hex(), parent_id(given)
        span = os.urandom(8).hex()
        with structured_logs.bound(trace=trace), _within(span):
            begun = time.perf_counter()
            response = self.get_response(request)
            response[ANSWERED] = trace
            took_ms = (time.perf_counter() - begun) * 1000
            if request.method not in _READS:
                log.info(
                    "%s %s answered %d in %.0f ms",
                    request.method,
                    _route(request),
                    response.status_code,
                    took_ms,
                )
            if spans.enabled() and (parent or request.method not in _READS):
                spans.export_now(_of_request(request, response, (trace, span, parent), took_ms))
            return response


def _route(request: HttpRequest) -> str:
    match = request.resolver_match
    return match.view_name if match and match.view_name else "unknown"


def _of_request(
    request: HttpRequest, response: HttpResponse, ids: tuple[str, str, str], took_ms: float
) -> Span:
    route, ended_ms = _route(request), time.time() * 1000
    attributes: dict[str, Value] = {
        "http.request.method": str(request.method), "http.route": route,
        "http.response.status_code": response.status_code,
    }  # fmt: skip
    error = f"it answered {response.status_code}" if response.status_code >= 500 else ""
    return Span(
        *ids,
        f"{request.method} {route}",
        "trainmaster-web",
        ended_ms - took_ms,
        ended_ms,
        Kind.SERVER,
        attributes,
        error,
    )


def stamp(headers: dict[str, Any] | None = None, **_: Any) -> None:
    """Before a task is published: its message says which trace asked for it."""
    if headers is not None and (trace := current()):
        headers[HEADER] = trace
        if spans.enabled() and (span := current_span()):
            headers[ASKED_BY] = span


def begin(task_id: str = "", task: Any = None, **_: Any) -> None:
    """Before a worker carries out a task. One that the clock asked for begins a trace of its own, named by its id."""
    asked = getattr(task.request, HEADER, None) if task is not None else None
    parent = getattr(task.request, ASKED_BY, None) if task is not None else None
    span = os.urandom(8).hex()
    _span.set(span)
    _task.set(
        _Task(span, str(parent), task.name, _program(task), time.time() * 1000)
        if parent and task is not None
        else None
    )
    structured_logs.bind_only(
        trace=str(asked or task_id.replace("-", "")), task=task.name if task is not None else ""
    )


def _program(task: Any) -> str:
    """Of the three that carry out tasks, by the name under which it was started: scheduler@host."""
    return f"trainmaster-{(task.request.hostname or 'worker').partition('@')[0]}"


def end(**_: Any) -> None:
    """After a worker has carried out a task. One that somebody asked for becomes a span."""
    if (task := _task.get()) is not None:
        spans.export_now(
            Span(
                current(), task.span, task.parent, task.name, task.service, task.began_ms, time.time() * 1000,
                Kind.CONSUMER,
            )
        )  # fmt: skip
    _task.set(None)
    _span.set("")
    structured_logs.bind_only()
