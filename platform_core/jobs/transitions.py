"""The life of a job: which event may lead where. What arrives twice or late changes nothing."""

from __future__ import annotations

from dataclasses import replace

from platform_core.checkpointing.restore import Chosen
from platform_core.errors import IllegalTransition
from platform_core.jobs import events as ev
from platform_core.jobs import gang, grace
from platform_core.jobs.effects import Effect, GangEnded, HintScheduler, ReleaseSlots, Step, StopMembers
from platform_core.jobs.ends import EndReason, with_exit_code
from platform_core.jobs.job import Job, Member, MemberPhase, Stop
from platform_core.jobs.kind import JobKind
from platform_core.jobs.recovery import goes_on_from
from platform_core.jobs.spec import JobSpec
from platform_core.jobs.states import ACTIVE, TERMINAL, WAITING, JobState
from platform_core.units import HOUR_MS, format_duration_ms

__all__ = [
    "TRANSITIONS", "Effect", "GangEnded", "HintScheduler", "IllegalTransition", "ReleaseSlots", "Step",
    "StopMembers", "advance", "submit",
]  # fmt: skip

_STAY = {state: {state} for state in JobState}
_PENDING, _SCHEDULED, _INITIALIZING = JobState.PENDING, JobState.SCHEDULED, JobState.INITIALIZING
_RUNNING, _CHECKPOINTING, _PREEMPTED = JobState.RUNNING, JobState.CHECKPOINTING, JobState.PREEMPTED
_BROKEN = {_PENDING, _PREEMPTED, JobState.FAILED, JobState.CANCELLED}  # ways in which an attempt ends
_ENDED = _BROKEN | {JobState.SUCCEEDED}

# A pair that is not here is refused. Copies of old news never come this far: see `_is_stale`.
TRANSITIONS: dict[tuple[JobState, type[ev.Event]], frozenset[JobState]] = {
    (state, event): frozenset(targets)
    for event, row in {
        ev.Submitted: _STAY,
        ev.Placed: {_PENDING: {_SCHEDULED}, _PREEMPTED: {_SCHEDULED}},
        ev.MemberObserved: _STAY
        | {
            _SCHEDULED: {_SCHEDULED, _INITIALIZING, _RUNNING} | _ENDED,
            _INITIALIZING: {_INITIALIZING, _RUNNING} | _ENDED,
            _RUNNING: {_RUNNING} | _ENDED,
            _CHECKPOINTING: {_CHECKPOINTING} | _ENDED,
        },
        ev.NodeLost: _STAY | {state: {state} | _BROKEN for state in ACTIVE},
        ev.Hung: _STAY,
        ev.Corrupted: _STAY,
        ev.CheckpointStarted: _STAY | {_RUNNING: {_CHECKPOINTING}},
        ev.CheckpointSaved: _STAY | {_CHECKPOINTING: {_RUNNING}},
        ev.CheckpointFailed: _STAY | {_CHECKPOINTING: {_RUNNING}},
        ev.CheckpointDamaged: _STAY,
        ev.CancelRequested: {state: {state} for state in ACTIVE}
        | {state: {JobState.CANCELLED} for state in WAITING},
        ev.PreemptRequested: _STAY,
        ev.TimeLimitReached: _STAY,
    }.items()
    for state, targets in row.items()
}


def submit(job_id: str, spec: JobSpec, event: ev.Submitted) -> Step:
    """The first step of every job."""
    job = Job(
        id=job_id,
        spec=spec,
        state=JobState.PENDING,
        version=1,
        attempt=0,
        restarts=0,
        failures=(),
        excluded_nodes=(),
        stop=Stop.NONE,
        latest_checkpoint="",
        submitted_ms=event.at_ms,
        waiting_since_ms=event.at_ms,
        started_ms=None,
        finished_ms=None,
        reason="",
        members=(),
    )
    return Step(job, (HintScheduler(),))


def advance(
    job: Job,
    event: ev.JobEvent,
    *,
    save_grace_ms: int = grace.SAVE_GRACE_MS,
) -> Step:
    """The job after the event, and what the shell has to do. No news: the same job and no effects."""
    if _is_stale(job, event):
        return Step(job)
    allowed = TRANSITIONS.get((job.state, type(event)))
    if allowed is None:
        raise IllegalTransition(job.id, job.state, type(event).__name__, _refusal(job, event))
    step = _apply(job, event, save_grace_ms)
    if step.job.state not in allowed:
        story = f"{type(event).__name__} led {job.id} from {job.state} to {step.job.state}, against the table"
        raise IllegalTransition(job.id, job.state, type(event).__name__, story)
    if step.job == job:
        return Step(job, step.effects)
    return Step(replace(step.job, version=job.version + 1), step.effects)


def _is_stale(job: Job, event: ev.JobEvent) -> bool:
    """Old news: of another attempt, of a member that has ended, or a copy of what is known already."""
    match event:
        case ev.Submitted():
            return True
        case ev.Placed(attempt=attempt):
            return attempt <= job.attempt
        case ev.MemberObserved(attempt=attempt, node=node, phase=phase):
            member = gang.living_on(job, node)
            return attempt != job.attempt or member is None or not gang.is_news(member, phase)
        case (
            ev.CheckpointStarted(attempt=attempt, step=step) | ev.CheckpointSaved(attempt=attempt, step=step)
        ):
            known = (job.latest_attempt, job.latest_step)
            return attempt < 1 or attempt != job.attempt or (attempt, step) <= known
        case ev.CheckpointFailed(attempt=attempt, step=step):
            return attempt < 1 or attempt != job.attempt or step <= job.unsaved_step
        case ev.CheckpointDamaged(attempt=attempt, checkpoint=checkpoint):
            return attempt != job.attempt or job.state in TERMINAL or checkpoint != goes_on_from(job)
        case ev.Corrupted(attempt=attempt, damaged=damaged):
            untouched = attempt != job.attempt and goes_on_from(job) not in damaged
            return attempt > job.attempt or job.state in TERMINAL or untouched
        case ev.PreemptRequested(attempt=attempt):
            return job.state not in ACTIVE or attempt not in (None, job.attempt)
        case ev.TimeLimitReached(at_ms=at_ms):
            endless = job.spec.kind is JobKind.SERVICE
            return endless or job.state not in ACTIVE or _ran_ms(job, at_ms) < job.spec.max_runtime_ms
        case ev.NodeLost(node=node):
            return gang.living_on(job, node) is None
        case ev.Hung(attempt=attempt, node=node):
            stopped = attempt != job.attempt or job.stop is not Stop.NONE
            return stopped or gang.living_on(job, node) is None
        case ev.CancelRequested():
            return False


def _apply(job: Job, event: ev.JobEvent, save_grace_ms: int) -> Step:
    after_save = _RUNNING if job.state is _CHECKPOINTING else job.state
    match event:
        case ev.Placed():
            return Step(_placed(job, event))
        case ev.MemberObserved(node=node, phase=phase, reason=reason, at_ms=at_ms):
            code = event.exit_code if phase is MemberPhase.EXITED else None
            seen = replace(_living(job, node), phase=phase, exit_code=code, reason=reason)
            if phase is MemberPhase.EXITED:
                seen = replace(seen, end=with_exit_code(event.end, code))
            elif phase is MemberPhase.LOST:
                seen = replace(seen, end=EndReason.NODE_LOST)
            return gang.observe(job, seen, at_ms)
        case ev.NodeLost(node=node, cause=cause, at_ms=at_ms):
            seen = replace(_living(job, node), phase=MemberPhase.LOST, reason=cause, end=EndReason.NODE_LOST)
            return gang.observe(job, seen, at_ms)
        case ev.Hung(node=node, cause=cause, at_ms=at_ms):
            return gang.restart_hung(job, _living(job, node), cause, at_ms)
        case ev.Corrupted():
            return _corrupted(job, event)
        case ev.CheckpointStarted():
            return Step(replace(job, state=_CHECKPOINTING) if job.state is _RUNNING else job)
        case ev.CheckpointFailed(step=step):
            return Step(replace(job, state=after_save, unsaved_step=step))
        case ev.CheckpointSaved():
            return Step(_saved(replace(job, state=after_save), event))
        case ev.CheckpointDamaged():
            return _without(job, event)
        case ev.CancelRequested():
            return _cancelled(job, event, save_grace_ms)
        case ev.PreemptRequested(cause=cause, leaves_ms=leaves_ms, at_ms=at_ms):
            why = cause or "its slots were needed for more urgent work"
            left_ms = None if leaves_ms is None else leaves_ms - at_ms
            grace_ms = grace.preempted(left_ms, job.save_ms, save_grace_ms)
            return gang.request_stop(job, Stop.PREEMPT, event.end, why, grace_ms)
        case ev.TimeLimitReached(at_ms=at_ms):
            grace_ms = grace.saving(job.save_ms, save_grace_ms)
            return gang.request_stop(
                job, Stop.TIME_LIMIT, EndReason.TIME_LIMIT, _over_limit(job, at_ms), grace_ms
            )
        case ev.Submitted():
            return Step(job)


def _saved(job: Job, event: ev.CheckpointSaved) -> Job:
    return replace(
        job, latest_checkpoint=event.checkpoint, latest_step=event.step, latest_ms=event.at_ms,
        latest_attempt=job.attempt, save_ms=event.save_ms or job.save_ms,
    )  # fmt: skip


def _living(job: Job, node: str) -> Member:
    member = gang.living_on(job, node)
    assert member is not None  # `_is_stale` has seen to it
    return member


def _placed(job: Job, event: ev.Placed) -> Job:
    """A gang starts whole or not at all; anything else is the planner's mistake and is refused."""
    members = tuple(sorted(event.members, key=lambda member: member.rank))
    slots = sum(len(set(member.slots)) for member in members)
    least, most = job.spec.min_gpus, job.spec.num_gpus
    sentence = ""
    if event.attempt != job.attempt + 1:
        sentence = f"it names attempt {event.attempt}, but the next one is {job.attempt + 1}"
    elif event.at_ms < job.not_before_ms:
        sentence = f"it restarts in {format_duration_ms(job.not_before_ms - event.at_ms)}"
    elif not least <= slots <= most:
        sentence = (
            f"it gives {slots} slots, but the job needs {least if least == most else f'{least} to {most}'}"
        )
    elif [member.rank for member in members] != list(range(len(members))):
        sentence = (
            f"its ranks are {', '.join(str(member.rank) for member in members)}, but must count up from 0"
        )
    elif len({member.node for member in members}) < len(members):
        sentence = "it names a node twice"
    elif any(not member.slots or member.phase is not MemberPhase.ASSIGNED for member in members):
        sentence = "a member has no slots or has begun already"
    if sentence:
        story = f"{job.id} cannot be placed like this: {sentence}"
        raise IllegalTransition(job.id, job.state, "Placed", story)
    return replace(
        job, state=_SCHEDULED, attempt=event.attempt, members=members, started_ms=event.at_ms,
        stop=Stop.NONE, reason="", running_ms=None, not_before_ms=0, unsaved_step=-1, end=None,
    )  # fmt: skip


def _without(job: Job, event: ev.CheckpointDamaged) -> Step:
    """It stops, to go on from the newest that is whole; without one it has failed.

    While it waits it only gets another one to begin from, or none.
    """
    cause = f"checkpoint {event.checkpoint} at step {event.step} is damaged: {event.cause.rstrip('.')}"
    one = event.instead
    if one is None:
        then = "no other checkpoint of it is whole; clone it to begin again at step 0"
    else:
        then = f"it goes on from checkpoint {one.id} at step {one.step}"
    job = _going_on_from(job, one)
    if job.state in WAITING:
        return Step(job)
    grace_ms = grace.GRACE_MS[Stop.RESTORE]
    return gang.request_stop(job, Stop.RESTORE, EndReason.DATA_REVIEW, f"{cause}; {then}", grace_ms)


def _corrupted(job: Job, event: ev.Corrupted) -> Step:
    """It stops, to go on from before the difference. While it waits it only gets another checkpoint to begin from."""
    if goes_on_from(job) in event.damaged:
        job = _going_on_from(job, event.instead)
    if job.state in WAITING:
        return Step(gang.blame(job, event.nodes, event.at_ms))
    reason = f"ranks computed different results at step {event.step}: {event.cause.rstrip('.')}"
    return gang.restart_corrupted(job, event.nodes, reason, event.at_ms)


def _going_on_from(job: Job, one: Chosen | None) -> Job:
    if one is None:
        return replace(job, latest_checkpoint="", latest_step=0, latest_ms=None, latest_attempt=0)
    return replace(
        job, latest_checkpoint=one.id, latest_step=one.step, latest_ms=None, latest_attempt=one.attempt
    )


def _cancelled(job: Job, event: ev.CancelRequested, save_grace_ms: int) -> Step:
    who = event.actor.removeprefix("user:")
    reason = f"cancelled by {who}" + (f": {event.cause}" if event.cause else "")
    if job.state in ACTIVE:
        grace_ms = grace.saving(job.save_ms, save_grace_ms) if event.may_save else grace.GRACE_MS[Stop.CANCEL]
        return gang.request_stop(job, Stop.CANCEL, EndReason.CANCELLED, reason, grace_ms)
    return Step(
        replace(
            job, state=JobState.CANCELLED, finished_ms=event.at_ms, reason=reason, end=EndReason.CANCELLED
        )
    )


def _ran_ms(job: Job, now_ms: int) -> int:
    return 0 if job.started_ms is None else now_ms - job.started_ms


def _over_limit(job: Job, now_ms: int) -> str:
    ran, limit = _ran_ms(job, now_ms), job.spec.max_runtime_ms
    if limit < HOUR_MS:
        return f"ran {format_duration_ms(ran)}, its limit is {format_duration_ms(limit)}"
    return f"ran {ran / HOUR_MS:.1f} h, its limit is {limit / HOUR_MS:g} h"


def _refusal(job: Job, event: ev.JobEvent) -> str:
    state = f"is {job.state}"
    if job.state in TERMINAL:
        state = f"has already {'been ' if job.state is JobState.CANCELLED else ''}{job.state}"
    match event:
        case ev.CancelRequested():
            return f"{job.id} {state}; only a waiting or running job can be cancelled"
        case ev.Placed(attempt=attempt):
            return f"{job.id} {state}; only a waiting job can be placed (attempt {attempt})"
        case _:
            return f"{job.id} {state}; {type(event).__name__} means nothing then"
