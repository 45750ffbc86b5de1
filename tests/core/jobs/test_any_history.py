"""Whatever happens, in whatever order and however often: these things hold."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from platform_core.checkpointing.restore import Chosen
from platform_core.errors import IllegalTransition
from platform_core.jobs import events as ev
from platform_core.jobs.effects import GangEnded, ReleaseSlots, StopMembers
from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import Job, MemberPhase, Stop
from platform_core.jobs.states import ACTIVE, TERMINAL, WAITING, JobState
from platform_core.jobs.transitions import TRANSITIONS, Step, advance, submit
from tests.core.jobs.situations import members, spec

KINDS = frozenset({
    ev.Submitted, ev.Placed, ev.MemberObserved, ev.CheckpointStarted, ev.CheckpointSaved,
    ev.CheckpointFailed, ev.CheckpointDamaged, ev.CancelRequested, ev.PreemptRequested, ev.TimeLimitReached,
    ev.NodeLost, ev.Hung, ev.Corrupted,
})  # fmt: skip
REFUSED = {(state, ev.Placed) for state in ACTIVE | TERMINAL} | {
    (state, ev.CancelRequested) for state in TERMINAL
}


def new_job(max_restarts: int = 3) -> Job:
    asked = spec(num_gpus=4, min_gpus=2, max_runtime_hours=1 / 3600, max_restarts=max_restarts)
    return submit("job-1", asked, ev.Submitted(at_ms=0)).job


@dataclass(frozen=True)
class Happening:
    """An event without its time and attempt, which depend on the job it meets. `shift` sends it to another attempt."""

    kind: type[ev.Event]
    details: tuple[tuple[str, Any], ...] = ()
    shift: int = 0

    def meets(self, job: Job, now_ms: int) -> ev.JobEvent:
        """Nothing happens on the nodes of a waiting job, so it is mostly placed instead."""
        kind, details, attempt = self.kind, dict(self.details), job.attempt + self.shift
        if job.state in WAITING and kind is ev.MemberObserved and not self.shift:
            kind, details = ev.Placed, {"members": members(*GANGS[details["node"]])}
        if kind is ev.Placed:
            attempt += 1
        if "attempt" in kind.__dataclass_fields__:
            details["attempt"] = attempt
        event: ev.JobEvent = kind(at_ms=now_ms, **details)  # type: ignore[assignment]
        return event


GANGS = {"node-a": ("node-a",), "node-b": ("node-a", "node-b"), "node-c": ("node-c", "node-b")}
SIGHTS = (
    (MemberPhase.ASSIGNED, None, EndReason.SCRIPT_ERROR), (MemberPhase.PREPARING, None, EndReason.SCRIPT_ERROR),
    (MemberPhase.RUNNING, None, EndReason.SCRIPT_ERROR), (MemberPhase.RUNNING, None, EndReason.SCRIPT_ERROR),
    (MemberPhase.EXITED, 0, EndReason.SCRIPT_ERROR), (MemberPhase.EXITED, 0, EndReason.SCRIPT_ERROR),
    (MemberPhase.EXITED, 1, EndReason.SCRIPT_ERROR), (MemberPhase.EXITED, None, EndReason.SCRIPT_ERROR),
    (MemberPhase.EXITED, 137, EndReason.OUT_OF_MEMORY_HOST), (MemberPhase.EXITED, 0, EndReason.LAUNCHER),
    (MemberPhase.EXITED, 143, EndReason.STOPPED), (MemberPhase.LOST, None, EndReason.NODE_LOST),
)  # fmt: skip
SEEN = [
    Happening(ev.MemberObserved, (("node", node), ("phase", phase), ("exit_code", code), ("end", end)), shift)
    for shift in (0, 0, 0, -1, 1)
    for node in GANGS
    for phase, code, end in SIGHTS
]
OTHERS = [
    Happening(ev.Submitted),
    *(
        Happening(ev.Placed, (("members", members(*gang)),), shift)
        for gang in GANGS.values()
        for shift in (-1, 0, 1)
    ),
    *(Happening(ev.CheckpointStarted, (("step", step),), shift) for step in range(4) for shift in (-1, 0, 0)),
    *(
        Happening(ev.CheckpointSaved, (("step", step), ("checkpoint", f"ckpt-{step}")), shift)
        for step in range(4)
        for shift in (-1, 0, 0)
    ),
    *(Happening(ev.CheckpointFailed, (("step", step),), shift) for step in range(4) for shift in (-1, 0)),
    *(
        Happening(
            ev.CheckpointDamaged,
            (("checkpoint", f"ckpt-{step}"), ("step", step), ("instead", instead)),
            shift,
        )
        for step in range(4)
        for instead in (None, Chosen("ckpt-0", 1, 0, "the newest good one"))
        for shift in (-1, 0)
    ),
    Happening(ev.CancelRequested, (("actor", "user:alice"),)),
    Happening(ev.CancelRequested, (("actor", "user:bob"),)),
    *(Happening(ev.PreemptRequested, (), shift) for shift in (-1, 0, 0, 0)),
    *[Happening(ev.TimeLimitReached)] * 3,
    *(Happening(ev.NodeLost, (("node", node),)) for node in GANGS),
    *(Happening(ev.Hung, (("node", node),), shift) for node in GANGS for shift in (0, -1)),
    *(
        Happening(
            ev.Corrupted,
            (("step", 2), ("nodes", nodes), ("damaged", ("ckpt-2", "ckpt-3")), ("instead", instead)),
            shift,
        )
        for nodes in ((), ("node-b",))
        for instead in (None, Chosen("ckpt-1", 1, 1, "the newest good one"))
        for shift in (0, -1, 1)
    ),
]
HISTORIES = st.lists(st.sampled_from(SEEN) | st.sampled_from(SEEN) | st.sampled_from(OTHERS), max_size=40)


def holds(job: Job) -> None:
    assert job.restarts == 0 or job.spec.max_restarts
    assert job.not_before_ms == 0 or job.state in WAITING | {JobState.CANCELLED}
    assert job.waiting_since_ms >= job.submitted_ms
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
@given(HISTORIES, st.integers(0, 3), st.sampled_from((100, 20_000)))
def test_any_history_keeps_the_invariants(history: list[Happening], max_restarts: int, pace_ms: int):
    job = new_job(max_restarts)
    for number, happening in enumerate(history):
        event = happening.meets(job, now_ms=number * pace_ms)
        try:
            step = advance(job, event)
        except IllegalTransition:
            assert (job.state, type(event)) in REFUSED or isinstance(event, ev.Placed)
            continue
        follows(job, event, step)
        holds(step.job)
        job = step.job


@settings(max_examples=200)
@given(HISTORIES)
def test_every_event_may_arrive_twice(history: list[Happening]):
    job = new_job()
    for number, happening in enumerate(history):
        event = happening.meets(job, now_ms=number * 100)
        try:
            job = advance(job, event).job
        except IllegalTransition:
            continue
        if isinstance(event, ev.CancelRequested) and job.finished:
            return  # to cancel a finished job is the one thing that is refused rather than ignored
        again = advance(job, event)
        assert again.job is job
        assert again.effects == ()


@given(HISTORIES)
def test_a_job_whose_members_all_end_never_hangs(history: list[Happening]):
    job = new_job()
    for number, happening in enumerate(history):
        with suppress(IllegalTransition):
            job = advance(job, happening.meets(job, now_ms=number * 100)).job
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
