from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.distribution.deployments import deployment as d
from platform_core.distribution.deployments.progress import progress, remaining_ms
from platform_core.errors import IllegalTransition

W, S = d.WorkerState, d.DeploymentState
NODES = ("n0", "n1", "n2")


def fresh(nodes: tuple[str, ...] = NODES) -> d.Deployment:
    workers = tuple(d.Worker(node, i, W.IDLE, 100) for i, node in enumerate(nodes))
    return d.Deployment("dep-1", S.INIT, 1, workers, created_ms=0)


def said(node: str, state: W, done: int = 0, at: int = 1, **more: object) -> d.WorkerReported:
    return d.WorkerReported(node, state, done, at, f"node:{node}", "observed", **more)  # type: ignore[arg-type]


def after(deployment: d.Deployment, *events: d.Event) -> d.Deployment:
    for event in events:
        deployment = d.advance(deployment, event).deployment
    return deployment


def failed(node: str, at: int = 1) -> d.WorkerReported:
    return said(node, W.FAILED, at=at, error_code="disk_full", error="needs 3 GiB and has 1 GiB")


def test_walks_through_its_phases() -> None:
    deployment = fresh()
    phases = []
    for event in (
        said("n0", W.RECEIVING, 10, at=5),
        said("n1", W.RECEIVING, 5, from_peer=True),
        said("n0", W.RECEIVING, 100, verifying=True),
        said("n2", W.RECEIVING, 100, verifying=True, from_peer=True),
        said("n1", W.RECEIVING, 100, verifying=True, from_peer=True),
        said("n0", W.COMPLETE),
        said("n1", W.COMPLETE),
        said("n2", W.COMPLETE, at=9),
    ):
        deployment = after(deployment, event)
        phases.append(deployment.state)
    assert phases == [S.DOWNLOADING, *[S.DISTRIBUTING] * 3, *[S.VERIFYING] * 3, S.COMPLETE]
    assert (deployment.started_ms, deployment.finished_ms, deployment.version) == (5, 9, 9)


def test_one_failed_worker_does_not_fail_the_deployment() -> None:
    step = d.advance(after(fresh(), failed("n1"), said("n0", W.COMPLETE)), said("n2", W.COMPLETE))
    assert step.deployment.state is S.COMPLETE
    reason = "2 of 3 nodes are done; n1 failed: needs 3 GiB and has 1 GiB"
    assert step.effects == (d.DeploymentEnded(S.COMPLETE, reason),)


def test_fails_when_all_workers_failed_and_says_why() -> None:
    step = d.advance(after(fresh(), failed("n0"), failed("n1")), failed("n2"))
    assert step.deployment.state is S.FAILED
    assert step.deployment.reason == "All 3 nodes failed; n0: needs 3 GiB and has 1 GiB"


def test_what_is_tried_again_is_not_told_as_failed_any_more() -> None:
    again = d.RetryRequested(9, "user:alice", "again")
    done = after(fresh(), failed("n0"), said("n1", W.COMPLETE), said("n2", W.COMPLETE))
    assert done.reason.endswith("n0 failed: needs 3 GiB and has 1 GiB")
    assert after(done, again).reason == ""
    assert after(fresh(), *map(failed, NODES), again).reason == ""


def test_a_returned_worker_resumes() -> None:
    deployment = after(fresh(), failed("n1"), said("n1", W.RECEIVING, 40, at=3))
    worker = deployment.workers[1]
    assert (worker.state, worker.bytes_done, worker.error, worker.finished_ms) == (W.RECEIVING, 40, "", None)


def test_a_worker_that_returns_after_the_end_catches_up_without_changing_the_outcome() -> None:
    done = after(fresh(), failed("n1"), said("n0", W.COMPLETE), said("n2", W.COMPLETE, at=7))
    late = after(done, said("n1", W.RECEIVING, 50), said("n1", W.COMPLETE, at=20))
    assert (late.state, late.finished_ms, progress(late).workers_complete) == (S.COMPLETE, 7, 3)


def test_a_failed_deployment_goes_on_when_a_worker_comes_back() -> None:
    dead = after(fresh(), *(failed(node) for node in NODES))
    back = after(dead, said("n1", W.RECEIVING, 50))
    assert (back.state, back.finished_ms, back.reason) == (S.DOWNLOADING, None, "")


def test_retry_tells_the_failed_workers_only() -> None:
    step = d.advance(
        after(fresh(), said("n0", W.RECEIVING), failed("n1")), d.RetryRequested(4, "user:alice", "asked")
    )
    assert step.effects == (d.TellWorkers(("n1",)),)
    assert step.deployment.workers[1].state is W.IDLE


def test_cancel_tells_every_worker_and_later_reports_change_nothing() -> None:
    step = d.advance(
        after(fresh(), said("n0", W.RECEIVING)), d.CancelRequested(8, "user:alice", "wrong model")
    )
    assert step.deployment.state is S.CANCELLED
    assert step.deployment.finished_ms == 8
    assert step.deployment.reason == "cancelled by alice: wrong model"
    assert d.TellWorkers(NODES) in step.effects
    assert after(step.deployment, said("n0", W.RECEIVING, 50)) == step.deployment


def test_cancel_after_the_end_is_refused_with_the_story() -> None:
    done = after(fresh(("n0",)), said("n0", W.COMPLETE))
    with pytest.raises(IllegalTransition, match="dep-1 is complete; CancelRequested by user:bob"):
        d.advance(done, d.CancelRequested(8, "user:bob", "late"))


def test_the_same_report_twice_changes_nothing() -> None:
    once = after(fresh(), said("n0", W.RECEIVING, 10))
    assert d.advance(once, said("n0", W.RECEIVING, 10, at=99)) == d.Step(once)


EVENTS = st.one_of(
    st.builds(
        said, st.sampled_from(NODES), st.sampled_from(W), st.integers(0, 100), st.integers(0, 9),
        verifying=st.booleans(), from_peer=st.booleans(),
    ),
    st.just(d.RetryRequested(5, "user:alice", "again")),
)  # fmt: skip


@given(st.lists(EVENTS, max_size=30))
def test_whatever_workers_report_the_state_is_what_they_are_in(events: list[d.Event]) -> None:
    deployment, version = fresh(), 1
    for event in events:
        step = d.advance(deployment, event)
        assert (step.deployment == deployment) == (step.deployment.version == deployment.version)
        if deployment.state is S.COMPLETE:
            assert step.deployment.state is S.COMPLETE
        else:
            assert step.deployment.state is d.state_of(step.deployment.workers)
        assert (step.deployment.finished_ms is not None) == (step.deployment.state in d.TERMINAL)
        deployment = step.deployment
    assert deployment.version >= version
    seen = progress(deployment)
    assert 0 <= seen.bytes_done <= seen.bytes_total == 300


def test_the_table_allows_exactly_what_can_happen() -> None:
    """Walks through every state that one worker or two can bring about."""
    reports = [
        said(node, state, verifying=verifying, from_peer=from_peer)
        for node in NODES[:2]
        for state in W
        for verifying in (False, True)
        for from_peer in (False, True)
    ]
    retry, cancel = d.RetryRequested(1, "user:alice", ""), d.CancelRequested(1, "user:alice", "")
    found: dict[tuple[S, type[d.Event]], set[S]] = {}
    todo = [fresh(NODES[:1]), fresh(NODES[:2])]
    seen = set(todo)
    while todo:
        deployment = todo.pop()
        for event in (*reports, retry, cancel):
            if (deployment.state, type(event)) not in d.TRANSITIONS:
                continue
            reached = d.advance(deployment, event).deployment
            found.setdefault((deployment.state, type(event)), set()).add(reached.state)
            reached = replace(reached, version=1, reason="")
            if reached not in seen:
                seen.add(reached)
                todo.append(reached)
    assert found == d.TRANSITIONS


def test_remaining_time_is_unknown_before_the_first_byte() -> None:
    assert remaining_ms(0, 100, 1000) is None
    assert remaining_ms(25, 100, 1000) == 3000


def evicted(node: str, at: int = 50) -> d.WorkerReported:
    return said(node, W.EVICTED, at=at, error="the disk is 93 % full, above 90 %")


def test_a_node_that_gives_its_copy_up_for_room_has_not_failed() -> None:
    done = after(fresh(), *(said(node, W.COMPLETE, at=9) for node in NODES))
    step = d.advance(done, evicted("n1"))
    worker = step.deployment.workers[1]
    assert (step.deployment.state, step.deployment.reason, step.deployment.finished_ms) == (S.COMPLETE, "", 9)
    assert (worker.state, worker.error, worker.finished_ms) == (
        W.EVICTED,
        "the disk is 93 % full, above 90 %",
        9,
    )
    assert step.effects == (d.TellWorkers(("n1",)),), "it is not wanted there any more"
    told = progress(step.deployment)
    assert (told.workers_complete, told.workers_evicted, told.workers_failed, told.percent) == (2, 1, 0, 100)
    assert d.advance(step.deployment, evicted("n1")).effects == (), "said once"


def test_a_copy_given_up_on_the_way_does_not_hold_up_the_others() -> None:
    deployment = after(fresh(), said("n0", W.COMPLETE), evicted("n0"))
    assert deployment.state is S.DISTRIBUTING
    ended = after(deployment, said("n1", W.COMPLETE), failed("n2"))
    assert ended.state is S.COMPLETE


def test_what_was_given_up_is_fetched_again_when_somebody_asks() -> None:
    done = after(fresh(), *(said(node, W.COMPLETE, at=9) for node in NODES), evicted("n1"))
    step = d.advance(done, d.RetryRequested(60, "alice", "again"))
    assert (step.deployment.workers[1].state, step.deployment.workers[1].bytes_done) == (W.IDLE, 0)
    assert step.effects == (d.TellWorkers(("n1",)),)
    assert after(step.deployment, said("n1", W.COMPLETE)).workers[1].state is W.COMPLETE


@given(st.lists(EVENTS, max_size=30), EVENTS)
def test_what_only_counts_bytes_changes_nothing_else(events: list[d.Event], last: d.Event) -> None:
    """So it may be written without the machine; and nothing that could be is left to it."""
    deployment = after(fresh(), *events)
    if isinstance(last, d.RetryRequested):
        return
    (worker,) = [each for each in deployment.workers if each.node == last.node]
    step = d.advance(deployment, last)
    (reached,) = [each for each in step.deployment.workers if each.node == last.node]
    others = replace(step.deployment, workers=(), version=0) == replace(deployment, workers=(), version=0)
    same = others and not step.effects and replace(reached, bytes_done=worker.bytes_done) == worker
    if (done := d.counted(worker, last)) is not None:
        assert same
        assert reached.bytes_done == done
    else:
        assert not same or (worker.bytes_done == worker.bytes_total) != (
            reached.bytes_done == worker.bytes_total
        )


def test_an_agent_that_verifies_its_whole_copy_again_keeps_the_time_when_it_was_ready() -> None:
    size = fresh().workers[0].bytes_total
    complete = after(
        fresh(), *(said(node, W.RECEIVING, at=1) for node in NODES), said("n0", W.COMPLETE, at=7)
    )
    again = after(complete, said("n0", W.RECEIVING, size, at=90), said("n0", W.COMPLETE, at=95))
    assert again.workers[0].finished_ms == 7
    lacking = after(complete, said("n0", W.RECEIVING, size - 1, at=90), said("n0", W.COMPLETE, at=95))
    assert lacking.workers[0].finished_ms == 95
