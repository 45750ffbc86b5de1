"""Canaries first, a failed check never promotes, and a way back from everywhere."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.distribution.rollouts import checks as c
from platform_core.distribution.rollouts import rollout as r
from platform_core.distribution.rollouts import states as s
from platform_core.distribution.rollouts.canaries import RolloutPlan
from platform_core.errors import IllegalTransition
from tests.core.distribution.acting import (
    AGAIN,
    BACK,
    CHECKED,
    NODES,
    PROMOTE,
    M,
    S,
    after,
    all_hold,
    checked,
    fresh,
    holds,
    lacks,
    not_switched,
    states,
    switched,
)


def test_canary_then_hold_then_the_rest() -> None:
    rollout = all_hold(CHECKED)
    assert (rollout.state, states(rollout)) == (S.CANARY, {"n0": "switching", "n1": "ready", "n2": "ready"})
    step = r.advance(rollout, switched("n0"))
    assert (step.rollout.state, step.tell) == (S.HOLDING, ("n0",)), "the canary is told to check"
    passed = after(step.rollout, checked("n0"))
    assert passed.state is S.HOLDING
    promoted = after(passed, PROMOTE)
    assert promoted.state is S.HOLDING, "a check of a while ago is repeated first"
    step = r.advance(promoted, checked("n0", round=2))
    assert (step.rollout.state, step.tell) == (S.PROMOTING, ("n1", "n2"))
    assert after(step.rollout, switched("n1"), switched("n2")).state is S.ACTIVE


def test_a_failed_check_stops_it_and_is_said_with_its_code() -> None:
    rollout = after(all_hold(CHECKED), switched("n0"), checked("n0", 7))
    assert (rollout.state, rollout.reason) == (S.FAILED, "n0: check-model ended with 7")
    with pytest.raises(IllegalTransition, match="is failed; PromoteRequested by user:a"):
        r.advance(rollout, PROMOTE)
    again = after(rollout, AGAIN)
    assert (again.state, again.round, again.reason) == (S.HOLDING, 2, "")
    assert after(again, checked("n0", 7, round=1)) == again, "a word of the last round"
    assert after(again, checked("n0", round=2), PROMOTE, checked("n0", round=3)).state is S.PROMOTING


def test_a_hold_ends_by_the_clock_and_not_before() -> None:
    rollout = after(all_hold(replace(CHECKED, hold_ms=1_000)), switched("n0"), checked("n0"))
    assert r.hold_ends_ms(rollout) == 1_002
    assert after(rollout, s.TimePassed(1_001, "system")) == rollout
    due = after(rollout, s.TimePassed(1_002, "system"))
    assert (due.state, due.round) == (S.HOLDING, 2)
    assert after(due, checked("n0", round=2)).state is S.PROMOTING


WATCHED = replace(CHECKED, hold_ms=60_000, check_every_ms=10_000, roll_back_after=2)


def passed_at(at_ms: int) -> s.Event:
    return s.TimePassed(at_ms, "system")


def test_the_check_is_repeated_as_long_as_the_canaries_are_held() -> None:
    rollout = after(all_hold(WATCHED), switched("n0"))
    assert after(rollout, passed_at(30_000)) == rollout, "nobody is asked again before it has answered"
    rollout = after(rollout, checked("n0"))
    assert c.next_check_ms(rollout) == 10_002
    assert after(rollout, passed_at(10_001)) == rollout
    step = r.advance(rollout, passed_at(10_002))
    assert (step.rollout.state, step.rollout.round, step.tell) == (S.HOLDING, 2, ("n0",))
    once = after(step.rollout, checked("n0", round=2))
    assert c.next_check_ms(once) == 20_002
    assert (
        c.next_check_ms(
            after(
                all_hold(replace(WATCHED, check_every_ms=0, roll_back_after=1)), switched("n0"), checked("n0")
            )
        )
        is None
    )


def test_so_many_failures_in_a_row_take_every_node_back_at_once() -> None:
    rollout = after(all_hold(WATCHED), switched("n0"), checked("n0", 7))
    assert (rollout.state, rollout.stopped) == (S.HOLDING, False)
    assert rollout.reason == "n0: check-model ended with 7, 1 of 2 in a row that take it back"
    assert after(rollout, checked("n0", 7)) == rollout, "the same word twice is one failure"
    well = after(rollout, passed_at(10_002), checked("n0", 0, 2), passed_at(20_002), checked("n0", 7, 3))
    assert well.state is S.HOLDING, "one that passed in between counts anew"
    step = r.advance(after(rollout, passed_at(10_002)), checked("n0", 7, 2))
    assert (step.rollout.state, step.tell) == (S.ROLLED_BACK, ("n0",))
    assert step.rollout.reason == "n0: check-model ended with 7, 2 times in a row"
    back = after(step.rollout, s.NodeReturned(5, "system", "n0"))
    assert (states(back)["n0"], back.reason) == ("returned", step.rollout.reason)


def test_a_failure_that_is_counted_holds_up_the_promotion_until_the_check_is_passed() -> None:
    rollout = after(all_hold(WATCHED), switched("n0"), checked("n0"), PROMOTE, checked("n0", 7, 2))
    assert rollout.state is S.HOLDING
    assert after(rollout, passed_at(10_009), checked("n0", 0, 3)).state is S.PROMOTING


def test_without_a_hold_the_check_alone_decides() -> None:
    rollout = after(all_hold(replace(CHECKED, hold_ms=0)), switched("n0"))
    assert after(rollout, checked("n0")).state is S.PROMOTING


def test_a_canary_whose_hook_fails_stops_it_until_somebody_tries_again() -> None:
    rollout = after(all_hold(CHECKED), not_switched("n0"))
    assert (rollout.state, rollout.reason) == (S.FAILED, "n0: reload ended with 3")
    step = r.advance(rollout, AGAIN)
    assert (step.rollout.state, step.tell) == (S.CANARY, ("n0",))
    assert after(step.rollout, switched("n0", 1)) == step.rollout, "a word of the first try"
    assert after(step.rollout, switched("n0", 2)).state is S.HOLDING


def test_without_canaries_each_switches_when_it_holds_the_version() -> None:
    rollout = after(fresh(RolloutPlan()), holds("n1"))
    assert (rollout.state, states(rollout)["n1"]) == (S.PROMOTING, "switching")
    rollout = after(rollout, switched("n1"), holds("n0"), switched("n0"), lacks("n2", "the disk is full"))
    assert (rollout.state, rollout.reason) == (S.ACTIVE, "n2 has no copy: the disk is full")
    late = after(rollout, holds("n2"))
    assert (late.state, states(late)["n2"]) == (S.ACTIVE, "switching")


def test_all_wait_for_the_last_when_told_to() -> None:
    waiting = after(fresh(RolloutPlan(wait_for_all=True)), holds("n0"), lacks("n1", "lost"), holds("n2"))
    assert (waiting.state, waiting.reason) == (S.DISTRIBUTING, "n1 has no copy: lost")
    step = r.advance(waiting, holds("n1"))
    assert (step.rollout.state, step.tell) == (S.PROMOTING, NODES)
    canary = after(fresh(replace(CHECKED, wait_for_all=True)), holds("n0"), holds("n1"))
    assert canary.state is S.DISTRIBUTING
    assert after(canary, holds("n2")).state is S.CANARY


def test_a_canary_that_cannot_get_a_copy_is_replaced_by_the_next() -> None:
    rollout = after(fresh(CHECKED), holds("n1"), lacks("n0", "the disk is full"))
    assert [member.node for member in rollout.canaries] == ["n1"]
    assert rollout.state is S.CANARY


def test_one_hook_that_fails_after_the_promotion_is_that_node_s_own() -> None:
    rollout = after(all_hold(RolloutPlan()), switched("n0"), not_switched("n1"), switched("n2"))
    assert (rollout.state, rollout.reason) == (S.ACTIVE, "n1: the switch ended with 3")
    assert states(after(rollout, AGAIN, switched("n1", 2)))["n1"] == "active"
    nobody = after(all_hold(RolloutPlan()), *(not_switched(node) for node in NODES))
    assert (nobody.state, nobody.reason) == (S.FAILED, "n0: the switch ended with 3; 2 more")


def test_back_in_one_step_and_twice_is_once() -> None:
    step = r.advance(after(all_hold(CHECKED), switched("n0")), BACK)
    assert (step.rollout.state, step.tell) == (S.ROLLED_BACK, ("n0",))
    assert states(step.rollout) == {"n0": "returning", "n1": "ready", "n2": "ready"}
    assert r.advance(step.rollout, BACK) == r.Step(step.rollout)
    assert states(after(step.rollout, s.NodeReturned(5, "system", "n0")))["n0"] == "returned"


PLANS = (
    st.builds(
        RolloutPlan,
        canaries=st.integers(1, 3),
        hold_ms=st.sampled_from([None, 0, 5]),
        health_check=st.sampled_from(["", "check-model"]),
        wait_for_all=st.booleans(),
    )
    | st.builds(
        RolloutPlan,
        canaries=st.integers(1, 3),
        hold_ms=st.sampled_from([None, 0, 5]),
        health_check=st.just("check-model"),
        check_every_ms=st.just(1000),
        roll_back_after=st.integers(1, 3),
    )
    | st.builds(RolloutPlan, wait_for_all=st.booleans())
)
ANY_NODE = st.sampled_from(NODES)
EVENTS = st.one_of(
    st.builds(holds, ANY_NODE),
    st.builds(lacks, ANY_NODE, st.sampled_from(["", "lost"])),
    st.builds(switched, ANY_NODE, st.integers(1, 3)),
    st.builds(not_switched, ANY_NODE, st.integers(1, 3)),
    st.builds(checked, ANY_NODE, st.integers(0, 1), st.integers(1, 3)),
    st.builds(s.NodeReturned, st.just(4), st.just("system"), ANY_NODE),
    st.builds(s.TimePassed, st.integers(0, 20) | st.integers(1000, 5000), st.just("system")),
    st.sampled_from([PROMOTE, AGAIN, BACK]),
)
HAPPY = [*(holds(node) for node in NODES), *(switched(node, n) for n in (1, 2) for node in NODES)]
MIXED = st.lists(EVENTS | st.sampled_from(HAPPY), max_size=40)


def tried(rollout: s.Rollout, event: s.Event) -> r.Step:
    """As the shell does it: what is not possible in a state changes nothing."""
    if (rollout.state, type(event)) not in r.TRANSITIONS:
        return r.Step(rollout)
    return r.advance(rollout, event)


@given(PLANS, MIXED)
def test_nobody_is_told_to_run_what_it_does_not_hold(plan: RolloutPlan, events: list[s.Event]) -> None:
    rollout, held = fresh(plan), set()
    for event in events:
        if isinstance(event, s.NodeHolds):
            held.add(event.node)
        elif isinstance(event, s.NodeLacks):
            held.discard(event.node)
        rollout = tried(rollout, event).rollout
        assert {member.node for member in rollout.members if member.told} <= held


@given(PLANS, MIXED)
def test_the_others_follow_only_canaries_that_run_it_and_have_passed(
    plan: RolloutPlan, events: list[s.Event]
) -> None:
    rollout = fresh(plan)
    for event in events:
        before, rollout = rollout, tried(rollout, event).rollout
        others = [member for member in rollout.members if member.told and not member.canary]
        assert not others or rollout.promoted
        if rollout.promoted and not before.promoted and plan.canaries:
            assert rollout.canaries
            assert all(member.state is M.ACTIVE for member in rollout.canaries)
            assert all(m.check and m.check.exit_code == 0 for m in rollout.canaries) or not plan.health_check


@given(PLANS, MIXED, MIXED)
def test_after_a_failed_check_nobody_follows_until_somebody_tries_again(
    plan: RolloutPlan, events: list[s.Event], later: list[s.Event]
) -> None:
    rollout = fresh(plan)
    for event in events:
        rollout = tried(rollout, event).rollout
    for event in later:
        failed = rollout.state is S.FAILED and rollout.stopped
        rollout = tried(rollout, event).rollout
        if failed and not isinstance(event, s.RetryRequested | s.RollBackRequested):
            assert rollout.state is S.FAILED
            assert not any(member.told for member in rollout.members if not member.canary)


def runs(*newest_first: s.Rollout) -> dict[str, list[str]]:
    parts = {
        node: [(one.id, m.state) for one in newest_first for m in one.members if m.node == node]
        for node in NODES
    }
    return {node: r.active_on(part) for node, part in parts.items()}


@given(PLANS, MIXED, PLANS, MIXED)
def test_back_from_everywhere_is_what_each_node_ran_before(
    first: RolloutPlan, before: list[s.Event], second: RolloutPlan, events: list[s.Event]
) -> None:
    old, new = fresh(first), replace(fresh(second), id="dep-2")
    for event in before:
        old = tried(old, event).rollout
    ran = runs(old)
    for event in events:
        new = tried(new, event).rollout
    for member in new.members:
        assert (runs(new, old)[member.node][:1] == ["dep-2"]) == member.told
    assert runs(r.advance(new, BACK).rollout, old) == ran


@given(PLANS, MIXED)
def test_whoever_is_wanted_to_do_something_else_is_told(plan: RolloutPlan, events: list[s.Event]) -> None:
    rollout = fresh(plan)
    for event in events:
        step = tried(rollout, event)
        orders = [{m.node: r.order_for(one, m) for m in one.members} for one in (rollout, step.rollout)]
        assert set(step.tell) == {node for node in NODES if orders[0][node] != orders[1][node]}
        assert (step.rollout == rollout) == (step.rollout.version == rollout.version)
        rollout = step.rollout


def test_the_table_allows_exactly_what_can_happen() -> None:
    """Walks through every state that two nodes can bring about."""
    nodes = NODES[:2]
    reports = [f(node) for f in (holds, lacks, switched, not_switched) for node in nodes]
    reports += [lacks(node, "lost") for node in nodes] + [s.NodeReturned(4, "system", node) for node in nodes]
    asked = [PROMOTE, AGAIN, BACK, s.TimePassed(99, "system")]
    plans = [replace(CHECKED, canaries=n, hold_ms=hold, health_check=check)
             for n in (1, 2) for hold in (0, 5) for check in ("", "check-model")]  # fmt: skip
    plans += [RolloutPlan(wait_for_all=wait) for wait in (False, True)]
    plans.append(replace(CHECKED, hold_ms=5, roll_back_after=1))
    todo = [fresh(plan, nodes) for plan in plans]
    found: dict[tuple[S, type], set[S]] = {}
    seen = set(todo)
    while todo:
        rollout = todo.pop()
        checks = [checked(node, code, rollout.round) for node in nodes for code in (0, 1)]
        for event in (*reports, *checks, *asked):
            if (rollout.state, type(event)) not in r.TRANSITIONS:
                continue
            reached = r.advance(rollout, event).rollout
            found.setdefault((rollout.state, type(event)), set()).add(reached.state)
            reached = _alike(reached)
            if reached not in seen:
                seen.add(reached)
                todo.append(reached)
    assert {pair: frozenset(targets) for pair, targets in found.items()} == r.TRANSITIONS


def _alike(rollout: s.Rollout) -> s.Rollout:
    """Without what only counts upwards: an order is always the first, a round too; older checks decide nothing."""

    def first(check: s.Check | None) -> s.Check | None:
        current = check is not None and check.round == rollout.round
        return (
            replace(check, round=1, output="", failures=min(1, check.failures)) if check and current else None
        )

    members = tuple(
        replace(m, revision=1, told_ms=None, output="", check=first(m.check)) for m in rollout.members
    )
    return replace(
        rollout, members=members, version=1, round=min(rollout.round, 1), reason="",
        holding_since_ms=rollout.holding_since_ms and 1, asked_ms=rollout.asked_ms and 1,
    )  # fmt: skip
