"""Spans of a trace, and their form on the wire: OTLP in JSON, as OpenTelemetry's protocol has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

Value = str | int | bool
_NANOSECONDS = 1_000_000  # in a millisecond
_FAILED = 2  # STATUS_CODE_ERROR


class Kind(IntEnum):
    """As OTLP numbers them."""

    INTERNAL = 1
    SERVER = 2
    CONSUMER = 5


@dataclass(frozen=True, slots=True)
class Span:
    trace: str
    id: str
    parent: str  # "" for the first of its trace
    name: str
    service: str  # the program that did it
    began_ms: float
    ended_ms: float
    kind: Kind = Kind.INTERNAL
    attributes: Mapping[str, Value] = field(default_factory=dict)
    error: str = ""  # why it failed


def export_request(spans: Sequence[Span]) -> dict[str, Any]:
    """An ExportTraceServiceRequest, with one resource for each service."""
    services = dict.fromkeys(span.service for span in spans)
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes({"service.name": service})},
                "scopeSpans": [
                    {
                        "scope": {"name": "trainmaster"},
                        "spans": [_span(span) for span in spans if span.service == service],
                    }
                ],
            }
            for service in services
        ]
    }


def _span(span: Span) -> dict[str, Any]:
    began, ended = round(span.began_ms * _NANOSECONDS), round(span.ended_ms * _NANOSECONDS)
    encoded: dict[str, Any] = {
        "traceId": span.trace,
        "spanId": span.id,
        "name": span.name,
        "kind": int(span.kind),
        "startTimeUnixNano": str(began),
        "endTimeUnixNano": str(max(began, ended)),  # two machines' clocks differ
        "attributes": _attributes(span.attributes),
    }
    if span.parent:
        encoded["parentSpanId"] = span.parent
    if span.error:
        encoded["status"] = {"code": _FAILED, "message": span.error}
    return encoded


def _attributes(values: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Value) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}
