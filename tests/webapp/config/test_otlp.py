"""Spans on their way to a collector."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from pytest_django import Settings

from platform_core.spans import Span
from tests.support.collector import Collector
from tests.webapp.config.test_logs import PARENT, TRACE
from webapp.base import spans
from webapp.base.spans import MOST_WAITING, Exporter
from webapp.config.otlp import otlp


def span(name: str) -> Span:
    return Span(TRACE, "00f067aa0ba902b9", "", name, "trainmaster-web", 1, 2)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector().running() as collector:
        yield collector


def test_the_standard_variables_name_the_collector() -> None:
    assert otlp("", "", "") == ("", {})
    assert otlp("http://c:4318/", "", "api-key=a%20b, X=1") == (
        "http://c:4318/v1/traces", {"api-key": "a b", "x": "1"},
    )  # fmt: skip
    assert otlp("http://c:4318", "https://d/otlp", "")[0] == "https://d/otlp"


@pytest.mark.parametrize(("endpoint", "headers"), [("c:4318", ""), ("http://c", "only-a-name")])
def test_a_wrong_variable_stops_the_start_and_shows_no_secret(endpoint: str, headers: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        otlp(endpoint, "", headers)
    assert "OTEL_EXPORTER_OTLP_" in str(refused.value)
    assert "only-a-name" not in str(refused.value)


def test_spans_arrive_in_batches_with_the_headers(collector: Collector) -> None:
    exporter = Exporter(f"{collector.url}/v1/traces", {"api-key": "k"})
    exporter.add(span(str(number)) for number in range(3))
    exporter.close()
    assert {one["name"] for one in collector.spans()} == {"0", "1", "2"}
    path, headers, _ = collector.requests[0]
    assert (path, headers["api-key"], headers["Content-Type"]) == ("/v1/traces", "k", "application/json")
    assert exporter.dropped == 0


def test_what_the_collector_refuses_is_dropped_and_counted(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.status = 400
    exporter = Exporter(collector.url, {})
    exporter.add([span("refused")])
    exporter.close()
    assert exporter.dropped == 1
    assert len(collector.requests) == 1
    assert "it answered 400" in caplog.text


def test_more_than_there_is_place_for_costs_spans_and_no_time() -> None:
    exporter = Exporter("http://127.0.0.1:9/v1/traces", {})  # nobody listens there
    exporter.add(span("much") for _ in range(3 * MOST_WAITING))
    assert exporter.dropped > 0
    exporter.close()


def test_a_request_that_changes_something_becomes_a_span_below_its_callers(
    db: None, collector: Collector, settings: Settings
) -> None:
    settings.OTLP_TRACES_ENDPOINT, settings.OTLP_HEADERS = f"{collector.url}/v1/traces", {}
    spans._exporter.cache_clear()
    try:
        Client().get("/livez")
        Client().get("/livez", headers={"traceparent": PARENT})
        Client().post("/set-password/MQ/a-secret-token/")
    finally:
        spans._exporter(os.getpid()).close()
        spans._exporter.cache_clear()
    asked, posted = collector.spans()
    assert (asked["traceId"], asked["parentSpanId"]) == (TRACE, PARENT.split("-")[2])
    assert asked["kind"] == 2
    assert posted["name"].startswith("POST accounts:")
    assert "a-secret-token" not in str(collector.requests)


def test_without_a_collector_no_span_is_made() -> None:
    def made() -> list[Span]:
        raise AssertionError("it costs something")

    spans.export(made)
    assert not spans.enabled()
