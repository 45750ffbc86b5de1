"""OTLP in JSON."""

from __future__ import annotations

from platform_core.spans import Kind, Span, export_request
from platform_core.trace_context import header, parent_id, span_id, trace_id

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_a_request_has_one_resource_for_each_service() -> None:
    spans = [
        Span(TRACE, "00f067aa0ba902b7", "", "POST", "web", 1.5, 2.5, Kind.SERVER, {"code": 201, "ok": True}),
        Span(TRACE, "00f067aa0ba902b8", "00f067aa0ba902b7", "tick", "worker", 9, 3, error="it broke"),
    ]
    web, worker = export_request(spans)["resourceSpans"]
    assert web["resource"]["attributes"] == [{"key": "service.name", "value": {"stringValue": "web"}}]
    assert web["scopeSpans"][0]["spans"] == [
        {
            "traceId": TRACE, "spanId": "00f067aa0ba902b7", "name": "POST", "kind": 2,
            "startTimeUnixNano": "1500000", "endTimeUnixNano": "2500000",
            "attributes": [
                {"key": "code", "value": {"intValue": "201"}}, {"key": "ok", "value": {"boolValue": True}},
            ],
        }
    ]  # fmt: skip
    (span,) = worker["scopeSpans"][0]["spans"]
    assert span["parentSpanId"] == "00f067aa0ba902b7"
    assert span["status"] == {"code": 2, "message": "it broke"}
    assert span["endTimeUnixNano"] == span["startTimeUnixNano"] == "9000000"  # two clocks differ


def test_ids_of_spans_follow_from_their_names() -> None:
    assert span_id("attempt", "att-a") == span_id("attempt", "att-a") != span_id("attempt", "att-b")
    made = header(TRACE, span_id("a"))
    assert (trace_id(made), parent_id(made)) == (TRACE, span_id("a"))
    assert parent_id("nonsense") == ""
