"""The trace of a job in the database: its context, what its agents report, and the spans that are sent."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.test import Client
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from platform_core.jobs.job import MemberPhase
from platform_core.jobs.start_phases import attempt_span, phases
from platform_core.node.observed import AttemptObserved, Observed, StartPhase
from platform_core.spans import Span
from platform_core.trace_context import parent_id, trace_id
from tests.webapp.jobs.conftest import say, tick
from trainmaster_wire.conversion import to_wire
from webapp.accounts.models import User
from webapp.base import spans
from webapp.jobs import traces
from webapp.jobs.models import Attempt, Job, Member
from webapp.rpc import spool, wanted
from webapp.rpc.observed import Report, observe

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]


@pytest.fixture
def sent(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> list[Span]:
    kept: list[Span] = []
    settings.OTLP_TRACES_ENDPOINT = "http://collector"

    class Keeping:
        def add(self, new: list[Span]) -> None:
            kept.extend(new)

    monkeypatch.setattr(spans, "_exporter", lambda _: Keeping())
    return kept


def reports(job: Job, phase: MemberPhase, *names: str) -> None:
    for member in Member.objects.filter(attempt__job=job):
        at_ms = member.attempt.placed_ms
        taken = tuple(
            StartPhase(name, at_ms + 10 * i, at_ms + 10 * i + 10) for i, name in enumerate(names, 1)
        )
        state = Observed(attempts=(AttemptObserved(member.attempt_id, phase, phases=taken),))
        observe([Report(member.node_id, to_wire(state), complete=False)])


def tells(job: Job, at_ms: int) -> None:
    lines = [
        {"kind": "init", "at_ms": at_ms, "params": {}},
        {"kind": "milestone", "name": "loaded", "at_ms": at_ms + 5, "step": 0},
        {"kind": "metrics", "at_ms": at_ms + 50, "step": 1, "values": {"loss": 1.0}},
    ]
    spool.ingest(Attempt.objects.get(job=job), "node-0", "\n".join(map(json.dumps, lines)).encode())


def test_the_order_to_a_node_carries_the_trace_of_the_submission(submit: Submit) -> None:
    job = submit(num_gpus=1)
    tick()
    attempt, member = Attempt.objects.get(job=job), Member.objects.get(attempt__job=job)
    [state] = wanted.wanted_states([member.node_id])
    launch = state.attempts[0].launch
    assert launch is not None
    assert trace_id(launch.traceparent) == trace_id(job.traceparent) is not None
    assert parent_id(launch.traceparent) == attempt_span(attempt.id)


def test_a_whole_start_becomes_one_trace(
    submit: Submit, sent: list[Span], django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        job = submit(num_gpus=1)
        tick()
        reports(job, MemberPhase.RUNNING, "code", "launch")
        tells(job, Attempt.objects.get(job=job).placed_ms + 100)
    by_name = {span.name: span for span in sent if span.trace == trace_id(job.traceparent)}
    assert by_name.keys() >= {
        "submit", "wait in queue", "placement", "start order", "fetch code", "launch", "start processes",
        "load checkpoint", "first step", "start attempt 1",
    }  # fmt: skip
    top = by_name["start attempt 1"]
    assert top.parent == by_name["submit"].id == parent_id(job.traceparent)
    assert {span.parent for name, span in by_name.items() if name not in ("submit", top.name)} == {top.id}
    assert by_name["first step"].ended_ms == top.ended_ms


def test_what_an_agent_repeats_is_kept_and_sent_once(
    submit: Submit, sent: list[Span], django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        job = submit(num_gpus=1)
        tick()
        reports(job, MemberPhase.RUNNING, "code", "launch")
        reports(job, MemberPhase.RUNNING, "code", "launch")
    assert [span.name for span in sent].count("launch") == 1
    [start] = traces.of_job(job.id)
    assert [phase.name for phase in phases(start)] == ["queue", "order", "code", "launch", "processes"]


def test_an_attempt_that_fails_before_its_first_step_ends_its_span_with_an_error(
    submit: Submit, sent: list[Span], django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        job = submit(num_gpus=1)
        tick()
        say(job, MemberPhase.RUNNING)
        say(job, MemberPhase.EXITED, 1)
    [failed] = [span for span in sent if span.name == "start attempt 1"]
    assert failed.error == "the attempt ended before its first step"


def test_the_page_of_a_job_shows_where_its_start_took_the_time(
    submit: Submit, browser: Callable[[User], Client], owner: User
) -> None:
    job = submit(num_gpus=1)
    address = f"/jobs/{job.id}/?tab=timeline"
    assert "Start of attempt" not in browser(owner).get(address).content.decode()
    tick()
    assert "so far" in browser(owner).get(address).content.decode()
    reports(job, MemberPhase.RUNNING, "code", "launch")
    tells(job, Attempt.objects.get(job=job).placed_ms + 100)
    page = browser(owner).get(address).content.decode()
    assert "Start of attempt 1" in page
    assert "Fetch code" in page
    assert "From the wait to the first step" in page
    assert str(trace_id(job.traceparent)) in page


def test_without_a_collector_the_phases_are_kept_all_the_same(submit: Submit) -> None:
    job = submit(num_gpus=1)
    tick()
    reports(job, MemberPhase.RUNNING, "launch")
    assert Member.objects.get(attempt__job=job).start_phases[0][0] == "launch"
