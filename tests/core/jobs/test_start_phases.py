"""The phases of an attempt's start, and the spans that they become."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from platform_core.jobs.start_phases import Phase, Start, attempt_span, phases, spans, waterfall, whole
from platform_core.trace_context import header

TRACE, SUBMIT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def start(**changes: object) -> Start:
    facts: dict[str, object] = {
        "job_id": "job-a", "attempt_id": "att-a", "number": 1, "traceparent": header(TRACE, SUBMIT),
        "waiting_ms": 100, "placed_ms": 200, "nodes": {"node-1": (), "node-2": ()},
    }  # fmt: skip
    return Start(**(facts | changes))  # type: ignore[arg-type]


REPORTED = {
    "node-1": (Phase("code", 210, 250, "node-1"), Phase("launch", 250, 260, "node-1")),
    "node-2": (Phase("code", 220, 300, "node-2"), Phase("launch", 300, 320, "node-2")),
}


def shown(start: Start) -> list[tuple[str, str, int, int | None]]:
    return [(phase.name, phase.node, phase.began_ms, phase.ended_ms) for phase in phases(start)]


def test_a_placed_attempt_waits_for_its_nodes() -> None:
    assert shown(start()) == [
        ("queue", "", 100, 200), ("order", "node-1", 200, None), ("order", "node-2", 200, None),
    ]  # fmt: skip
    assert [span.name for span in spans(start())] == ["wait in queue"]
    assert whole(start()) is None


def test_each_node_fetches_by_itself_and_the_slowest_is_waited_for() -> None:
    started = start(nodes=REPORTED, script_ms=400, loaded_ms=450, first_step_ms=900)
    assert shown(started) == [
        ("queue", "", 100, 200),
        ("order", "node-1", 200, 210),
        ("order", "node-2", 200, 220),
        ("code", "node-1", 210, 250),
        ("code", "node-2", 220, 300),
        ("launch", "node-1", 250, 260),
        ("launch", "node-2", 300, 320),
        ("processes", "", 320, 400),
        ("load", "", 400, 450),
        ("first_step", "", 450, 900),
    ]


def test_the_waterfall_names_the_slowest_node_of_each_phase() -> None:
    started = start(nodes=REPORTED, script_ms=400, first_step_ms=900)
    found = [
        (step.name, step.began_ms, step.ended_ms, step.nodes, step.slowest) for step in waterfall(started)
    ]
    assert found == [
        ("queue", 100, 200, 0, ""),
        ("order", 200, 220, 2, "node-2"),
        ("code", 210, 300, 2, "node-2"),
        ("launch", 250, 320, 2, "node-2"),
        ("processes", 320, 400, 0, ""),
        ("first_step", 400, 900, 0, ""),
    ]
    waiting = start(nodes={"node-1": REPORTED["node-1"], "node-2": ()})
    order = waterfall(waiting)[1]
    assert (order.name, order.ended_ms, order.slowest) == ("order", None, "node-2")


def test_spans_hang_below_the_attempt_and_it_below_the_submission() -> None:
    started = start(nodes=REPORTED, script_ms=400, first_step_ms=900)
    top = whole(started)
    assert top is not None
    assert (top.trace, top.parent, top.began_ms, top.ended_ms, top.error) == (TRACE, SUBMIT, 100, 900, "")
    below = spans(started)
    assert {span.parent for span in below} == {top.id} == {attempt_span("att-a")}
    assert len({span.id for span in below}) == len(below)
    assert {span.service for span in below} == {
        "trainmaster-scheduler", "trainmaster-gateway", "trainmaster-agent", "trainmaster-rank",
    }  # fmt: skip
    assert [span.name for span in spans(started, ["first_step"])] == ["first step"]


def test_an_attempt_that_ended_before_its_first_step_is_a_failed_span() -> None:
    failed = start(nodes={"node-1": REPORTED["node-1"]}, ended_ms=500)
    assert shown(failed)[-1] == ("processes", "", 260, 500)
    top = whole(failed)
    assert top is not None
    assert top.error == "the attempt ended before its first step"


def test_a_job_of_before_has_phases_and_no_spans() -> None:
    assert spans(start(traceparent="")) == []
    assert whole(start(traceparent="", ended_ms=500)) is None
    assert len(phases(start(traceparent=""))) == 3


moments = st.integers(0, 10_000)


@given(
    moments,
    moments,
    st.lists(st.tuples(moments, moments), max_size=3),
    st.lists(moments | st.none(), min_size=4, max_size=4),
)
def test_no_phase_ends_before_it_began_whatever_the_clocks_say(
    waiting: int, placed: int, fetched: list[tuple[int, int]], later: list[int | None]
) -> None:
    reported = tuple(Phase("launch", began, ended, "node-1") for began, ended in fetched)
    script, loaded, stepped, ended = later
    odd = start(
        waiting_ms=waiting, placed_ms=placed, nodes={"node-1": reported}, script_ms=script, loaded_ms=loaded,
        first_step_ms=stepped, ended_ms=ended,
    )  # fmt: skip
    for phase in phases(odd):
        assert phase.ended_ms is None or phase.ended_ms >= phase.began_ms
    for span in spans(odd):
        assert span.ended_ms >= span.began_ms
