from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.cluster import health
from platform_core.cluster.health import (
    DrainRequested,
    Emptied,
    HealthLimits,
    Heartbeat,
    LoseMembers,
    NodeHealth,
    NodeState,
    ResumeRequested,
    Silence,
    advance,
)
from platform_core.jobs.effects import HintScheduler

KINDS = (Heartbeat, Silence, DrainRequested, ResumeRequested, Emptied)


def node(state: NodeState = NodeState.READY, *, draining: bool = False, seen_ms: int = 0) -> NodeHealth:
    return NodeHealth("node-a", state, since_ms=0, last_seen_ms=seen_ms, drain_requested=draining)


def test_ten_seconds_of_silence_make_a_node_suspect_and_thirty_lose_it():
    ready = node()
    assert advance(ready, Silence(9_999)).health is ready
    suspect = advance(ready, Silence(10_000))
    assert (suspect.health.state, suspect.effects) == (NodeState.SUSPECT, ())
    assert advance(suspect.health, Silence(29_999)).health.state is NodeState.SUSPECT
    lost = advance(suspect.health, Silence(30_000))
    assert lost.health.state is NodeState.LOST
    reason = "no heartbeat for 30 s, the limit is 30 s"
    assert lost.effects == (LoseMembers("node-a", reason), HintScheduler())


def test_a_long_silence_loses_a_node_at_once():
    assert advance(node(), Silence(31_000)).health.state is NodeState.LOST


def test_a_lost_node_loses_its_members_only_once():
    lost = advance(node(), Silence(31_000)).health
    assert advance(lost, Silence(32_000)) == health.NodeStep(lost)


def test_a_node_that_is_heard_again_takes_work_again():
    lost = advance(node(), Silence(31_000)).health
    back = advance(lost, Heartbeat(40_000))
    assert (back.health.state, back.health.since_ms, back.health.last_seen_ms) == (
        NodeState.READY,
        40_000,
        40_000,
    )
    assert back.effects == (HintScheduler(),)
    assert back.health.reason == "heard again after 9 s as lost"


def test_a_heartbeat_older_than_the_last_one_is_no_sign_of_life():
    suspect = node(NodeState.SUSPECT, seen_ms=5_000)
    assert advance(suspect, Heartbeat(4_000)).health is not None
    assert advance(suspect, Heartbeat(4_000)).health == suspect


@pytest.mark.parametrize("gone", [NodeState.SUSPECT, NodeState.LOST])
def test_a_draining_node_that_was_silent_is_still_to_be_drained(gone: NodeState):
    draining = advance(node(), DrainRequested(1_000, actor="user:root", cause="new disks")).health
    assert (draining.state, draining.reason) == (NodeState.DRAINING, "drained by root: new disks")
    silent = advance(draining, Silence(10_000 if gone is NodeState.SUSPECT else 30_000)).health
    assert silent.state is gone
    assert advance(silent, Heartbeat(50_000)).health.state is NodeState.DRAINING


def test_a_drain_asked_of_a_lost_node_is_remembered_and_can_be_taken_back():
    lost = advance(node(NodeState.LOST), DrainRequested(1)).health
    assert (lost.state, lost.drain_requested) == (NodeState.LOST, True)
    assert advance(advance(lost, ResumeRequested(2)).health, Heartbeat(3)).health.state is NodeState.READY


def test_an_emptied_node_is_drained_and_resumes():
    drained = advance(node(NodeState.DRAINING, draining=True), Emptied(5)).health
    assert drained.state is NodeState.DRAINED
    resumed = advance(drained, ResumeRequested(6, actor="user:root"))
    assert (resumed.health.state, resumed.health.reason) == (NodeState.READY, "resumed by root")
    assert resumed.effects == (HintScheduler(),)


def test_a_drained_node_still_says_why_it_was_drained():
    draining = advance(node(), DrainRequested(1_000, actor="user:root", cause="new disks")).health
    drained = advance(draining, Emptied(2_000)).health
    assert drained.reason == "drained by root: new disks; nothing runs there any more"


def test_a_ready_node_without_work_is_not_drained():
    assert advance(node(), Emptied(5)).health.state is NodeState.READY


def test_a_node_must_be_suspect_before_it_is_lost():
    with pytest.raises(ValueError, match="suspect before it is lost"):
        HealthLimits(suspect_ms=30_000, lost_ms=10_000)


def test_the_table_knows_every_pair():
    assert set(health.TRANSITIONS) == set(itertools.product(NodeState, KINDS))


EVENTS = st.one_of([st.builds(kind, st.integers(0, 100_000)) for kind in KINDS])


@given(st.lists(EVENTS, max_size=30))
def test_any_history_remembers_the_drain_and_takes_every_event_twice(history: list[health.NodeEvent]):
    now, wanted = node(), False
    for event in history:
        step = advance(now, event)
        if isinstance(event, DrainRequested | ResumeRequested):
            wanted = isinstance(event, DrainRequested)
        assert step.health.drain_requested is wanted
        assert (step.health.state in (NodeState.DRAINING, NodeState.DRAINED)) <= wanted
        assert (step.health.state is NodeState.READY) <= (not wanted)
        assert step.health.last_seen_ms >= now.last_seen_ms
        assert advance(step.health, event) == health.NodeStep(step.health)
        lost = step.health.state is NodeState.LOST and now.state is not NodeState.LOST
        assert lost == any(isinstance(effect, LoseMembers) for effect in step.effects)
        now = step.health
