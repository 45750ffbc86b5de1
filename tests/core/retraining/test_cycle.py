"""A cycle submits one job, registers one version and starts one canary, whatever happens in which order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.errors import IllegalTransition
from platform_core.retraining import cycle as machine
from platform_core.retraining.cycle import (
    ASKS,
    DESCRIPTION,
    ENDED,
    Approved,
    Broke,
    CanaryEnded,
    CanaryStarted,
    Cancelled,
    Cycle,
    CycleState,
    Delayed,
    Judged,
    Registered,
    Submitted,
    Todo,
    advance,
    todo,
)

EVENTS = st.one_of(
    st.builds(Approved, st.sampled_from(["lena", "carl"])),
    st.builds(Submitted, st.sampled_from(["job-1", "job-2"])),
    st.builds(Delayed, st.just("the quota is full")),
    st.builds(Registered, st.sampled_from(["mv-1", "mv-2"])),
    st.builds(Judged, st.sampled_from([(), ("accuracy is 0.1",), ("a", "b")])),
    st.builds(CanaryStarted),
    st.builds(CanaryEnded, st.booleans(), st.just("verdict")),
    st.builds(Broke, st.just("the job failed")),
    st.builds(Cancelled, st.just("bob")),
)


def begun(training: bool = False, canary: bool = False, endpoint: bool = True) -> Cycle:
    return machine.begin("1", approve_training=training, approve_canary=canary, has_endpoint=endpoint)


def walked(cycle: Cycle, *events: machine.Event) -> Cycle:
    for event in events:
        cycle = advance(cycle, event)
    return cycle


@given(st.booleans(), st.booleans(), st.booleans(), st.lists(EVENTS, max_size=40))
def test_each_costly_step_happens_once_and_only_after_its_approval(
    training: bool, canary: bool, endpoint: bool, events: list[machine.Event]
) -> None:
    cycle = begun(training, canary, endpoint)
    done: list[type] = []
    for event in events:
        before = cycle
        try:
            cycle = advance(cycle, event)
        except IllegalTransition:
            assert cycle == before
            continue
        assert before.state not in ENDED, "what has ended stays as it is"
        done.append(type(event))
        for step in (Submitted, Registered, Judged, CanaryStarted, CanaryEnded):
            assert done.count(step) <= 1
    if training and Submitted in done:
        assert done.index(Approved) < done.index(Submitted)
    if canary and CanaryStarted in done:
        assert done.count(Approved) == 1 + training
    if CanaryStarted in done:
        assert endpoint
    assert (cycle.job != "") == (Submitted in done)
    assert (cycle.version != "") == (Registered in done)


@given(st.booleans(), st.booleans(), st.booleans(), st.lists(EVENTS, max_size=40))
def test_an_open_cycle_waits_for_a_person_or_has_something_to_do(
    training: bool, canary: bool, endpoint: bool, events: list[machine.Event]
) -> None:
    cycle = begun(training, canary, endpoint)
    for event in events:
        if cycle.state in machine.TRANSITIONS[type(event)]:
            cycle = advance(cycle, event)
        idle = todo(cycle) is Todo.NOTHING
        assert idle == (cycle.state in ENDED | ASKS)


def test_a_cycle_without_approvals_goes_round_by_itself() -> None:
    cycle = walked(
        begun(),
        Submitted("job-1"),
        Registered("mv-2"),
        Judged(),
        CanaryStarted(),
        CanaryEnded(True, "0 failed"),
    )
    assert (cycle.state, cycle.job, cycle.version, cycle.reason) == (
        CycleState.PROMOTED,
        "job-1",
        "mv-2",
        "0 failed",
    )


def test_every_costly_step_waits_for_its_approval() -> None:
    cycle = begun(training=True, canary=True)
    assert (cycle.state, todo(cycle)) == (CycleState.REQUESTED, Todo.NOTHING)
    cycle = walked(cycle, Approved("lena"), Submitted("job-1"), Registered("mv-2"), Judged())
    assert (cycle.state, todo(cycle)) == (CycleState.PROVEN, Todo.NOTHING)
    cycle = walked(cycle, Approved("carl"), CanaryStarted())
    assert (cycle.state, cycle.approved_by) == (CycleState.CANARY, ("lena", "carl"))


def test_without_an_endpoint_it_ends_at_the_gate() -> None:
    cycle = walked(begun(endpoint=False, canary=True), Submitted("job-1"), Registered("mv-2"), Judged())
    assert cycle.state is CycleState.ACCEPTED


def test_the_gate_says_every_reason() -> None:
    cycle = walked(begun(), Submitted("job-1"), Registered("mv-2"), Judged(("accuracy is 0.1", "no f1")))
    assert (cycle.state, cycle.reason) == (CycleState.REFUSED, "accuracy is 0.1; no f1")


def test_a_step_that_is_delayed_keeps_its_reason_until_it_is_done() -> None:
    cycle = walked(begun(), Delayed("the quota is full"))
    assert (cycle.state, cycle.reason, todo(cycle)) == (
        CycleState.SUBMITTING,
        "the quota is full",
        Todo.SUBMIT,
    )
    assert advance(cycle, Submitted("job-1")).reason == ""


def test_a_second_job_is_refused_with_the_story() -> None:
    with pytest.raises(IllegalTransition, match="training"):
        walked(begun(), Submitted("job-1"), Submitted("job-2"))


def test_every_state_has_words() -> None:
    assert set(DESCRIPTION) == set(CycleState)
