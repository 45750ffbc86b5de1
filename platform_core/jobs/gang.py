"""The members of an attempt, from the first sign of life to the end of the last one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from platform_core.jobs import recovery
from platform_core.jobs.effects import Effect, GangEnded, HintScheduler, ReleaseSlots, Step, StopMembers
from platform_core.jobs.ends import ENDS, EndReason
from platform_core.jobs.grace import GRACE_MS
from platform_core.jobs.job import Failure, Job, Member, MemberPhase, Stop
from platform_core.jobs.states import JobState

# A stop gives way to a later one only in this direction: a person's cancel is the last word.
_STRENGTH = (Stop.NONE, Stop.PREEMPT, Stop.RESTART, Stop.RESTORE, Stop.TIME_LIMIT, Stop.CANCEL)

_ORDER = {
    MemberPhase.ASSIGNED: 0,
    MemberPhase.PREPARING: 1,
    MemberPhase.RUNNING: 2,
    MemberPhase.EXITED: 3,
    MemberPhase.LOST: 3,
}


def living_on(job: Job, node: str) -> Member | None:
    return next((member for member in job.living if member.node == node), None)


def left_on_silent_nodes(job: Job, silent: Collection[str]) -> tuple[Member, ...]:
    """What is left of a gang that has failed, where nothing is heard of any of its nodes.

    It ends in any case, and its peers' lost connections say the same as the silence: nobody waits until that is long
    enough to take a node as lost.
    """
    if job.stop is not Stop.RESTART or any(member.node not in silent for member in job.living):
        return ()
    return job.living


def is_news(member: Member, phase: MemberPhase) -> bool:
    """Phases only go forward; a late or repeated message changes nothing."""
    return _ORDER[phase] > _ORDER[member.phase]


def request_stop(job: Job, stop: Stop, end: EndReason, reason: str, grace_ms: int) -> Step:
    """The members are stopped once; a stronger stop later only changes the outcome."""
    if _STRENGTH.index(stop) <= _STRENGTH.index(job.stop):
        return Step(job)
    told_already = job.stop is not Stop.NONE
    stopped = replace(job, stop=stop, end=end, reason=reason)
    if told_already:
        return Step(stopped)
    nodes = tuple(member.node for member in job.living)
    return Step(replace(stopped, stop_grace_ms=grace_ms), (StopMembers(nodes, grace_ms),))


def restart_hung(job: Job, stuck: Member, reason: str, at_ms: int) -> Step:
    """Stops a gang that hangs as one whose member on the node of the stuck rank has failed."""
    ran_ms = at_ms - job.running_ms if job.running_ms is not None else 0
    failure = Failure(stuck.node, at_ms, job.attempt, stuck.rank, EndReason.HANG, None, ran_ms)
    job = replace(job, failures=(*job.failures, failure))
    return request_stop(job, Stop.RESTART, EndReason.HANG, reason, GRACE_MS[Stop.RESTART])


def restart_corrupted(job: Job, nodes: Sequence[str], reason: str, at_ms: int) -> Step:
    """Stops a gang whose ranks disagree; of its failures so far only those that are no consequences stay."""
    job = replace(job, failures=_blamed(job, nodes, at_ms))
    if job.stop is Stop.RESTART:
        return Step(replace(job, end=EndReason.SILENT_CORRUPTION, reason=reason))
    return request_stop(job, Stop.RESTART, EndReason.SILENT_CORRUPTION, reason, GRACE_MS[Stop.RESTART])


def blame(job: Job, nodes: Sequence[str], at_ms: int) -> Job:
    """A gang that has ended already, as its ranks disagreed."""
    if job.end is not EndReason.SILENT_CORRUPTION:
        return job
    return replace(job, failures=_blamed(job, nodes, at_ms))


def _blamed(job: Job, nodes: Sequence[str], at_ms: int) -> tuple[Failure, ...]:
    """The failures, with those of these nodes (of nobody, where there are none) as the cause in this attempt."""
    ran_ms = at_ms - job.running_ms if job.running_ms is not None else 0
    kept = [
        failure
        for failure in _without_consequences(job)
        if (failure.attempt, failure.end) != (job.attempt, EndReason.SILENT_CORRUPTION)
    ]
    ranks = {member.node: member.rank for member in job.members}
    blamed = [
        Failure(node, at_ms, job.attempt, ranks.get(node, 0), EndReason.SILENT_CORRUPTION, None, ran_ms)
        for node in nodes or ("",)
    ]
    return (*kept, *blamed)


def observe(job: Job, seen: Member, at_ms: int) -> Step:
    """`seen` replaces the member on its node, and the job follows."""
    members = tuple(seen if member.node == seen.node else member for member in job.members)
    job = replace(job, members=members)
    if not seen.ended:
        return Step(_follow(job, at_ms))
    effects: tuple[Effect, ...] = (ReleaseSlots((seen.node,)), HintScheduler())
    if recovery.failed(seen):
        job, more = _count_failure(job, seen, at_ms)
        effects += more
    if job.living:
        return Step(_follow(job, at_ms), effects)
    job = _end(job, at_ms)
    end = job.end or EndReason.SUCCEEDED
    return Step(
        job, (*effects, GangEnded(job.state, end, job.reason or "all its ranks ended with exit code 0"))
    )


def _follow(job: Job, at_ms: int) -> Job:
    """While nothing stops the job, its state is what its members have reached together."""
    if job.stop is not Stop.NONE or job.state not in (JobState.SCHEDULED, JobState.INITIALIZING):
        return job
    reached = [_ORDER[member.phase] for member in job.members]
    if min(reached) >= _ORDER[MemberPhase.RUNNING]:
        return replace(job, state=JobState.RUNNING, running_ms=at_ms)
    if max(reached) >= _ORDER[MemberPhase.PREPARING]:
        return replace(job, state=JobState.INITIALIZING)
    return job


def _count_failure(job: Job, seen: Member, at_ms: int) -> tuple[Job, tuple[Effect, ...]]:
    """The first to fail is the cause, what follows are consequences; but a lost node beats an exit code, and another
    failure beats lost connections.

    When a node or a rank dies, its peers' collectives fail first, long before its end is noticed.
    """
    lost = seen.phase is MemberPhase.LOST
    if job.stop is not Stop.NONE and not lost and not _explains(seen, job):
        return job, ()
    reason = job.reason
    failures = job.failures
    if job.stop is Stop.RESTART:
        failures, reason = _without_consequences(job), recovery.told(seen)
        job = replace(job, end=seen.end)
    ran_ms = at_ms - job.running_ms if job.running_ms is not None else 0
    failure = Failure(seen.node, at_ms, job.attempt, seen.rank, seen.end, seen.exit_code, ran_ms)
    job = replace(job, failures=(*failures, failure), reason=reason)
    if job.stop is not Stop.NONE:
        return job, ()
    if not job.living:
        return replace(job, stop=Stop.RESTART, end=seen.end, reason=recovery.told(seen)), ()
    step = request_stop(job, Stop.RESTART, seen.end, recovery.told(seen), GRACE_MS[Stop.RESTART])
    return step.job, step.effects


def _explains(seen: Member, job: Job) -> bool:
    """Whether this end is why the gang's first failure was a lost connection."""
    consequences = (EndReason.NETWORK, EndReason.STOPPED, EndReason.SUCCEEDED)
    return job.stop is Stop.RESTART and job.end is EndReason.NETWORK and seen.end not in consequences


def _without_consequences(job: Job) -> tuple[Failure, ...]:
    """The failures without those of this attempt that rest on nothing but a script's exit code or lost connections."""
    return tuple(
        failure
        for failure in job.failures
        if failure.attempt != job.attempt
        or (ENDS[failure.end].counts == "infrastructure" and failure.end is not EndReason.NETWORK)
    )


def _end(job: Job, at_ms: int) -> Job:
    """All members have ended: the kind of stop says what that means."""
    match job.stop:
        case Stop.NONE:
            return _finish(replace(job, end=EndReason.SUCCEEDED), JobState.SUCCEEDED, at_ms, "")
        case Stop.CANCEL:
            return _finish(job, JobState.CANCELLED, at_ms, job.reason)
        case Stop.TIME_LIMIT:
            return _finish(job, JobState.FAILED, at_ms, job.reason)
        case Stop.PREEMPT:
            return _wait(job, JobState.PREEMPTED, at_ms)
        case Stop.RESTART:
            return _recover(recovery.with_progress(job), at_ms)
        case Stop.RESTORE if job.latest_checkpoint:
            # No restart is counted: there are only so many checkpoints, and no node is to blame.
            return _wait(job, JobState.PENDING, at_ms)
        case Stop.RESTORE:
            return _finish(job, JobState.FAILED, at_ms, job.reason)


def _finish(job: Job, state: JobState, at_ms: int, reason: str) -> Job:
    return replace(job, state=state, stop=Stop.NONE, finished_ms=at_ms, reason=reason)


def _wait(job: Job, state: JobState, at_ms: int) -> Job:
    """Returns it to pending, with the waiting time it had before it started."""
    since_ms = job.waiting_since_ms + at_ms - (job.started_ms or at_ms)
    return replace(job, state=state, stop=Stop.NONE, started_ms=None, waiting_since_ms=since_ms)


def _recover(job: Job, at_ms: int) -> Job:
    decision = recovery.decide(job)
    if isinstance(decision, recovery.GiveUp):
        return _finish(job, JobState.FAILED, at_ms, decision.reason)
    source = (
        f"from checkpoint {decision.from_checkpoint}" if decision.from_checkpoint else "from the beginning"
    )
    added = sorted(set(decision.excluded).difference(job.excluded_nodes))
    without = f", for a while without {' and '.join(added)}" if added else ""
    limit = f" of {decision.limit}" if decision.limit else ""
    restart = f"restart {decision.number}{limit} {source}{without}"
    return replace(
        _wait(job, JobState.PENDING, at_ms),
        restarts=job.restarts + 1,
        excluded_nodes=decision.excluded,
        reason=f"{job.reason}; {restart}",
        not_before_ms=at_ms + decision.pause_ms if decision.pause_ms else 0,
    )
