"""Numbers, times and events as a page shows them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.template import Context, Template
from django.test import RequestFactory

from webapp.events.models import Event
from webapp.pages.templatetags import display


def event(kind: str, cause: str = "", actor: str = "system", subject: str = "job", **data: Any) -> Event:
    return Event(
        subject_kind=subject,
        subject_id="job-1",
        kind=kind,
        at_ms=1,
        actor=actor,
        cause=cause,
        team="vision",
        data=data,
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.41234567, "1.412"), (0.0006, "0.0006"), (3e-7, "3e-07"), (412880.4, "412,880"), (12000, "12,000"),
     ("cosine", "cosine"), (True, "True"), (None, "–")],
)  # fmt: skip
def test_a_measured_number_has_four_digits_that_count(value: object, shown: str) -> None:
    assert display.figure(value) == shown


def test_what_is_not_known_is_a_dash() -> None:
    assert {
        f(None) for f in (display.duration, display.size, display.money, display.number, display.percent)
    } == {"–"}
    assert display.ago(None) == display.at(None) == display.since(0) == "–"


@pytest.mark.parametrize(
    ("age", "words"),
    [(timedelta(seconds=12), "12 s ago"), (timedelta(minutes=3, seconds=40), "3 min ago"),
     (timedelta(hours=30), "30 h ago"), (timedelta(days=3), "3 d ago"), (-timedelta(minutes=5, seconds=9), "in 5 min")],
)  # fmt: skip
def test_an_age_is_told_in_its_largest_unit(age: timedelta, words: str) -> None:
    assert f">{words}</time>" in display.ago(datetime.now(UTC) - age)


def test_every_state_is_a_word_and_a_tone() -> None:
    assert display.state("failed") == '<span class="state bad">failed</span>'
    assert (
        display.state("a state of a later release")
        == '<span class="state off">a state of a later release</span>'
    )


@pytest.mark.parametrize(
    ("kind", "tone"),
    [("Hung", "bad"), ("Corrupted", "bad"), ("DeviceFault", "bad"), ("CheckpointIntervalLengthened", "wait")],
)
def test_what_went_wrong_has_the_tone_of_it(kind: str, tone: str) -> None:
    assert display.event_tone(kind) == tone


def test_a_job_is_told_by_its_cause_and_others_by_what_happened() -> None:
    assert display.happened(event("Placed", "attempt 1 got 4 slots")) == "attempt 1 got 4 slots"
    assert display.happened(event("NodeLost", "no heartbeat for 30 s", subject="node")) == (
        "node lost: no heartbeat for 30 s"
    )
    assert display.happened(event("MemberExited", "its processes ended", state="succeeded")) == (
        "succeeded: its processes ended"
    )
    assert display.happened(event("DeploymentComplete", "Every node has it.", subject="deployment")) == (
        "complete: Every node has it."
    )


def test_who_did_it_is_not_said_twice() -> None:
    assert display.by_whom(event("Submitted", "alice submitted it", actor="user:alice")) == ""
    assert display.by_whom(event("Placed", "attempt 1 got 4 slots", actor="scheduler")) == "scheduler"
    assert display.by_whom(event("MemberExited", "its processes ended", actor="node:node-1")) == ""


def test_a_name_cannot_bring_markup_onto_the_page() -> None:
    shown = display.subject(event("Submitted", subject="dataset", name="<img src=x>"))
    assert shown == "<b>&lt;img src=x&gt;</b>"


def test_links_keep_the_filters_and_drop_the_fragment() -> None:
    request = RequestFactory().get("/jobs/?state=failed&block=list&after=9")
    page = Template("{% load display %}{% here after=None q='lr' %} {% fragment 'list' %}")
    assert page.render(Context({"request": request}, autoescape=False)) == (
        "?state=failed&q=lr ?state=failed&block=list&after=9"
    )


def test_a_strip_draws_runs_of_chunks_by_attributes_alone() -> None:
    drawn = display.strip([(0, 3, "have"), (5, 1, "bad")], 6, "node-1")
    assert drawn.count("<rect") == 2
    assert "style=" not in drawn
