"""Whatever happens, in whatever order and however often: these things hold."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from platform_core.errors import IllegalTransition
from platform_core.jobs import events as ev
from platform_core.jobs.effects import GangEnded, ReleaseSlots, StopMembers
from platform_core.jobs.job import Job, MemberPhase, Stop
from platform_core.jobs.states import ACTIVE, TERMINAL, WAITING, JobState
from platform_core.jobs.transitions import TRANSITIONS, Step, advance, submit
from tests.core.jobs.situations import members, spec

NODES = ("node-a", "node-b", "node-c")
KINDS = frozenset({
    ev.Submitted, ev.Placed, ev.MemberObserved, ev.CheckpointStarted, ev.CheckpointSaved,
    ev.CancelRequested, ev.PreemptRequested, ev.TimeLimitReached, ev.NodeLost, ev.Requeued,
})  # fmt: skip
REFUSED = (
    {(state, ev.Placed) for state in ACTIVE | TERMINAL}
    | {(state, ev.CancelRequested) for state in TERMINAL}
    | {(state, ev.Requeued) for state in frozenset(JobState) - {JobState.PREEMPTED}}
)


def new_job() -> Job:
    return submit(
        "job-1", spec(num_gpus=4, min_gpus=2, max_runtime_hours=1 / 3600), ev.Submitted(at_ms=0)
    ).job


@st.composite
def an_event(draw: st.DrawFn, job: Job, now_ms: int) -> ev.JobEvent:
    """Mostly what may well happen to this job now, sometimes nonsense of another time or place."""
    attempt = draw(st.sampled_from([job.attempt] * 6 + [job.attempt + 1, job.attempt - 1]))
    node = draw(st.sampled_from(NODES))
    observed = st.builds(
        ev.MemberObserved,
        at_ms=st.just(now_ms),
        attempt=st.just(attempt),
        node=st.just(node),
        phase=st.sampled_from(MemberPhase),
        exit_code=st.sampled_from([None, 0, 0, 1, 137]),
        reason=st.sampled_from(["", "", "infrastructure", "infrastructure: no space"]),
    )
    nodes = draw(st.sampled_from([("node-a",), ("node-a", "node-b"), ("node-c", "node-b")]))
    step = draw(st.integers(0, 5))
    saved = ev.CheckpointSaved(at_ms=now_ms, attempt=attempt, step=step, checkpoint=f"ckpt-{step}")
    placed = ev.Placed(at_ms=now_ms, attempt=job.attempt + 1, members=members(*nodes))
    others: list[ev.JobEvent] = [
        ev.Submitted(at_ms=now_ms),
        ev.Placed(at_ms=now_ms, attempt=attempt, members=members(*nodes)),
        ev.CheckpointStarted(at_ms=now_ms, attempt=attempt, step=step),
        saved,
        ev.CancelRequested(at_ms=now_ms, actor="user:alice"),
        ev.PreemptRequested(at_ms=now_ms, attempt=draw(st.sampled_from([None, attempt]))),
        ev.TimeLimitReached(at_ms=now_ms),
        ev.NodeLost(at_ms=now_ms, node=node),
        ev.Requeued(at_ms=now_ms, attempt=attempt),
    ]
    if job.state in WAITING and draw(st.integers(0, 2)):
        return placed
    return draw(st.one_of(observed, observed, st.sampled_from(others)))


def holds(job: Job, max_restarts: int) -> None:
    assert 0 <= job.restarts <= max_restarts
    assert len({member.node for member in job.members}) == len(job.members)
    if job.state in ACTIVE:
        assert job.living
        assert job.started_ms is not None
        assert job.finished_ms is None
        assert sum(len(member.slots) for member in job.members) in range(
            job.spec.min_gpus, job.spec.num_gpus + 1
        )
    else:
        assert not job.living
        assert job.stop is Stop.NONE
    assert job.finished == (job.finished_ms is not None) == (job.state in TERMINAL)
    if job.state is JobState.RUNNING:
        assert all(
            m.phase in (MemberPhase.RUNNING, MemberPhase.EXITED, MemberPhase.LOST) for m in job.members
        )
    if job.state is JobState.SUCCEEDED:
        assert all(member.exit_code == 0 for member in job.members)
    if job.state in (JobState.FAILED, JobState.CANCELLED, JobState.PREEMPTED):
        assert job.reason


def follows(before: Job, event: ev.JobEvent, step: Step) -> None:
    after = step.job
    if after == before:
        assert step.effects == ()
        return
    assert after.version == before.version + 1
    assert after.attempt - before.attempt == isinstance(event, ev.Placed)
    assert after.restarts - before.restarts in (0, 1)
    assert after.state in TRANSITIONS[before.state, type(event)]
    living = {member.node for member in before.living}
    released = [node for effect in step.effects if isinstance(effect, ReleaseSlots) for node in effect.nodes]
    still = {member.node for member in after.living}
    if before.attempt == after.attempt:
        assert set(released) == living - still
        assert len(released) == len(set(released))
    for effect in step.effects:
        if isinstance(effect, StopMembers):
            assert set(effect.nodes) == still
            assert before.stop is Stop.NONE
    ended = any(isinstance(effect, GangEnded) for effect in step.effects)
    assert ended == (before.state in ACTIVE and after.state not in ACTIVE)


@settings(max_examples=300)
@given(st.data(), st.integers(0, 3))
def test_any_history_keeps_the_invariants(data: st.DataObject, max_restarts: int):
    job = new_job()
    for number in range(data.draw(st.integers(1, 40), label="events")):
        event = data.draw(an_event(job, now_ms=number * 100), label="event")
        try:
            step = advance(job, event, max_restarts=max_restarts)
        except IllegalTransition:
            assert (job.state, type(event)) in REFUSED or isinstance(event, ev.Placed)
            continue
        follows(job, event, step)
        holds(step.job, max_restarts)
        job = step.job


@settings(max_examples=200)
@given(st.data())
def test_every_event_may_arrive_twice(data: st.DataObject):
    job = new_job()
    for number in range(data.draw(st.integers(1, 25), label="events")):
        event = data.draw(an_event(job, now_ms=number * 100), label="event")
        try:
            job = advance(job, event).job
        except IllegalTransition:
            continue
        if isinstance(event, ev.CancelRequested) and job.finished:
            return  # to cancel a finished job is the one thing that is refused rather than ignored
        again = advance(job, event)
        assert again.job is job
        assert again.effects == ()


@settings(max_examples=100)
@given(st.data())
def test_a_job_whose_members_all_end_never_hangs(data: st.DataObject):
    job = new_job()
    for number in range(data.draw(st.integers(1, 25), label="events")):
        try:
            job = advance(job, data.draw(an_event(job, now_ms=number * 100))).job
        except IllegalTransition:
            continue
    for member in job.living:
        job = advance(job, ev.NodeLost(at_ms=9_999, node=member.node)).job
    assert job.state in TERMINAL | WAITING


def test_the_table_knows_every_pair_of_state_and_event():
    assert set(TRANSITIONS) == {(state, kind) for state in JobState for kind in KINDS} - REFUSED
    assert all(targets for targets in TRANSITIONS.values())


def test_no_event_leads_out_of_a_finished_job():
    for (state, _), targets in TRANSITIONS.items():
        if state in TERMINAL:
            assert targets == {state}
