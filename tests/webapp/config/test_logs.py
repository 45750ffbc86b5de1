"""Logging of the processes, and the trace from a request to its tasks and events."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from tests.webapp.jobs.conftest import SPEC, cluster
from trainmaster import structured_logs
from webapp.accounts.models import User
from webapp.base import tracing
from webapp.config.logs import process_name
from webapp.events.models import Event
from webapp.jobs import hints
from webapp.nodes.models import Node
from webapp.operations import programs

__all__ = ["cluster"]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["/bin/uvicorn", "webapp.config.asgi:application", "--port", "1"], "web"),
        (["/bin/uvicorn", "webapp.router.asgi:application"], "router"),
        (["/bin/celery", "--quiet", "-A", "webapp.config", "worker", "--concurrency", "2"], "worker"),
        (["/bin/celery", *programs.WORKER[1:]], "worker"),
        (["/bin/celery", *programs.SCHEDULER[1:]], "scheduler"),
        (["/bin/celery", *programs.COORDINATOR[1:]], "coordinator"),
        (["/bin/celery", "--quiet", "-A", "webapp.config", "beat"], "beat"),
        (["manage.py", "gateway"], "gateway"),
        (["manage.py", "migrate"], "migrate"),
        (["python"], "python"),
        ([], "python"),
    ],
)
def test_a_process_knows_its_name(arguments: list[str], name: str) -> None:
    assert process_name(arguments) == name


def test_the_answer_names_the_trace_of_its_caller(db: None) -> None:
    assert Client().get("/livez", headers={"traceparent": PARENT})["X-Request-ID"] == TRACE
    first, second = (Client().get("/livez", headers={"traceparent": "nonsense"}) for _ in range(2))
    assert first["X-Request-ID"] != second["X-Request-ID"]
    assert len(first["X-Request-ID"]) == 32
    assert tracing.current() == ""


@pytest.mark.django_db(transaction=True)
def test_a_submission_carries_its_trace_into_its_event_its_log_line_and_its_task(
    api: Callable[..., APIClient],
    owner: User,
    cluster: list[Node],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent: list[dict[str, Any]] = []
    traces: list[str] = []

    def publish(name: str, **options: Any) -> None:
        headers: dict[str, Any] = {}
        tracing.stamp(headers)
        sent.append({"name": name, **headers})

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("Submitted job-"):
                traces.append(tracing.current())

    monkeypatch.setattr("webapp.jobs.hints.current_app", SimpleNamespace(send_task=publish))
    hints.tick_begins()  # the nodes that joined have asked for a round, which has begun
    notes = Notes()
    logging.getLogger("webapp.events").addHandler(notes)
    caplog.set_level(logging.INFO)
    try:
        answer = api(owner).post("/api/v1/training-jobs", SPEC, "json", headers={"traceparent": PARENT})
    finally:
        logging.getLogger("webapp.events").removeHandler(notes)
    assert answer.status_code == 201, answer.content
    assert answer["X-Request-ID"] == TRACE
    event = Event.objects.filter(subject_id=answer.json()["id"]).earliest("id")
    assert event.data["trace"] == TRACE
    assert TRACE in traces
    assert {"name": "scheduling.tick", "trainmaster_trace": TRACE} in sent
    assert any("POST api-jobs answered 201" in record.getMessage() for record in caplog.records)


def test_a_task_goes_on_with_the_trace_that_asked_for_it() -> None:
    def task(**headers: str) -> Any:
        return SimpleNamespace(name="scheduling.tick", request=SimpleNamespace(**headers))

    tracing.begin("0b6d3c1a-0000-0000-0000-000000000001", task(trainmaster_trace=TRACE))
    assert structured_logs.bound_fields() == {"trace": TRACE, "task": "scheduling.tick"}
    tracing.begin("0b6d3c1a-0000-0000-0000-000000000001", task())
    assert tracing.current() == "0b6d3c1a000000000000000000000001"
    tracing.end()
    assert tracing.current() == ""


def test_a_route_is_logged_and_not_its_address(db: None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    Client().post("/set-password/MQ/a-secret-token/")
    assert any("POST accounts:" in record.getMessage() for record in caplog.records)
    assert "a-secret-token" not in " ".join(
        record.getMessage() for record in caplog.records if record.name.startswith("webapp")
    )
