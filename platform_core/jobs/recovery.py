"""What becomes of a gang that failed: another try from its newest checkpoint, perhaps after a pause, or the end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from platform_core.jobs.ends import ENDS, EndReason
from platform_core.jobs.job import Failure, Job, Member, MemberPhase
from platform_core.jobs.kind import JobKind
from platform_core.units import DAY_MS, MINUTE_MS, SECOND_MS, format_duration_ms

FAILURES_TO_EXCLUDE = 2
AVOIDED_MS, LONGEST_AVOIDED_MS = 10 * MINUTE_MS, DAY_MS
# Not lost connections, which the peers of a dead rank report, nor what the script or somebody's signal did.
_FAULTS_OF_NODES = frozenset({
    EndReason.NODE_LOST, EndReason.GPU_FAILED, EndReason.LAUNCHER, EndReason.DISK_FULL, EndReason.HANG,
    EndReason.SILENT_CORRUPTION,
})  # fmt: skip
INFRASTRUCTURE_RESTARTS = 10  # without progress; as many as `max_restarts` if that is more
SOON_MS = MINUTE_MS  # a script that fails so soon after its start, in the same way again, does so each time
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 10 * SECOND_MS, 5 * MINUTE_MS
SERVICE_SETTLED_MS = 5 * MINUTE_MS  # a service that ran so long does not fail because of how it starts
_FROM_OUTSIDE = (-15, -9, 137, 143)  # somebody killed it: another time perhaps not


@dataclass(frozen=True, slots=True)
class Restart:
    """`from_checkpoint` is '' for a start from nothing; `excluded` are all nodes to avoid from now on.

    `limit` 0: there is none.
    """

    from_checkpoint: str
    excluded: tuple[str, ...]
    number: int
    limit: int
    pause_ms: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    reason: str


def decide(job: Job) -> Restart | GiveUp:
    """Of a job whose last attempt has failed, as `job.failures` has it with its progress."""
    if job.spec.kind is JobKind.SERVICE:
        return _again(job)
    if not job.spec.max_restarts:
        return GiveUp(f"{job.reason}; max_restarts is 0, so it is not restarted")
    causes = _since_progress(job.failures)
    last, platform = causes[-1], _infrastructure(causes[-1])
    # Before it ran, another node or source may have good bytes.
    if last.end is EndReason.DATA_REVIEW and last.ran_ms:
        return GiveUp(f"{job.reason}; another try would read the same data, so a person decides on it first")
    if len(causes) > 1 and (where := _same_place(causes[-2], last, job.members)):
        again = f"it failed in the same way the last time, {where}"
        return GiveUp(f"{job.reason}; {again}: another restart would not help")
    limit = max(INFRASTRUCTURE_RESTARTS, job.spec.max_restarts) if platform else job.spec.max_restarts
    number = sum(_infrastructure(cause) == platform for cause in causes)
    if number > limit:
        sentence = f"{job.reason}; it was restarted {limit} times without progress"
        return GiveUp(f"{sentence}, and {limit} is the limit")
    at_once = platform or _from_outside(last)
    return Restart(goes_on_from(job), excluded(job), number, limit, _pause_ms(number - at_once))


def _again(job: Job) -> Restart:
    """A service always starts again, after a pause that grows while it fails soon after its start."""
    soon = 0
    for failure in reversed(job.failures):
        if failure.ran_ms > SERVICE_SETTLED_MS:
            break
        soon += 1
    return Restart("", excluded(job), soon, 0, _pause_ms(soon - 1) if soon > 1 else 0)


def _infrastructure(failure: Failure) -> bool:
    return ENDS[failure.end].counts == "infrastructure"


def losses_ms(failures: Sequence[Failure]) -> tuple[int, ...]:
    """When attempts ended because a machine failed, one moment for each attempt, ascending."""
    lost = {failure.attempt: failure.at_ms for failure in failures if _infrastructure(failure)}
    return tuple(sorted(lost.values()))


def _pause_ms(number: int) -> int:
    """Before the restart of this number, twice as long each time; none before number 0."""
    return min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS << min(number - 1, 20)) if number else 0


def _since_progress(failures: Sequence[Failure]) -> list[Failure]:
    """The cause of each failed attempt, from the last one on that had a newer checkpoint than any before it."""
    causes: dict[int, Failure] = {}
    for failure in failures:  # several nodes may be lost in an attempt, beside ranks that failed for that
        if failure.attempt not in causes or not _infrastructure(causes[failure.attempt]):
            causes[failure.attempt] = failure
    furthest, since = -1, 0
    for number, cause in enumerate(causes.values()):
        if cause.step > furthest:
            furthest, since = cause.step, number
    return list(causes.values())[since:]


def _from_outside(failure: Failure) -> bool:
    return failure.exit_code in _FROM_OUTSIDE and failure.end in (EndReason.SCRIPT_ERROR, EndReason.KILLED)


def _same_place(before: Failure, last: Failure, members: Sequence[Member]) -> str:
    """Where the script failed as the time before: at the same step, or soon after its start both times; else ''."""
    if _infrastructure(last) or _from_outside(last):
        return ""
    # Which of several ranks that fail alike is heard of first is chance.
    alike = {m.rank for m in members if m.end is last.end and m.exit_code == last.exit_code}
    if (before.end, before.exit_code) != (last.end, last.exit_code) or before.rank not in alike | {last.rank}:
        return ""
    if last.reached == before.reached >= 0:
        return f"at step {last.reached:,}"
    soon = max(before.ran_ms, last.ran_ms) <= SOON_MS
    return f"{format_duration_ms(max(last.ran_ms, SECOND_MS))} after its start" if soon else ""


def with_progress(job: Job) -> Job:
    """The job at the end of an attempt: its failures say how far the newest checkpoint is."""
    return replace(
        job,
        failures=tuple(
            replace(failure, step=job.latest_step, reached=job.reached)
            if failure.attempt == job.attempt
            else failure
            for failure in job.failures
        ),
    )


def goes_on_from(job: Job) -> str:
    """The checkpoint that its next attempt begins with; '' is none."""
    return job.latest_checkpoint or job.spec.resume_from


def excluded(job: Job) -> tuple[str, ...]:
    """The nodes that the job avoids at the moment of its last failure."""
    return avoided(job.failures, max((failure.at_ms for failure in job.failures), default=0))


def avoided(failures: Sequence[Failure], now_ms: int) -> tuple[str, ...]:
    """Nodes that failed a job twice by their own fault: once may be bad luck, and small clusters have no spare nodes.

    For a while, which doubles with each further failure: a node that was mended serves again.
    """
    moments: dict[str, dict[int, int]] = {}
    for failure in failures:
        if failure.node and failure.end in _FAULTS_OF_NODES:
            moments.setdefault(failure.node, {})[failure.attempt] = failure.at_ms
    return tuple(
        sorted(node for node, at_ms in moments.items() if now_ms < _avoided_until_ms(at_ms.values()))
    )


def _avoided_until_ms(moments: Collection[int]) -> int:
    more = len(moments) - FAILURES_TO_EXCLUDE
    return max(moments) + min(LONGEST_AVOIDED_MS, AVOIDED_MS << min(more, 20)) if more >= 0 else 0


def failed(member: Member) -> bool:
    """Ended otherwise than by its own exit code 0."""
    return member.ended and member.end is not EndReason.SUCCEEDED


def told(member: Member) -> str:
    """Why this member's end failed the gang, as a sentence without its full stop."""
    who = f"rank {member.rank} on {member.node}"
    if member.phase is MemberPhase.LOST:
        return f"{who} was lost" + (f": {member.reason}" if member.reason else "")
    if member.end is EndReason.LAUNCHER:
        detail = member.reason.rstrip(".")
        return f"{member.node} could not run rank {member.rank}" + (f": {detail}" if detail else "")
    if member.reason:  # the agent knows which rank it was and why; repeating the code would say it twice
        return f"{member.node}: {member.reason.rstrip('.')}"
    if member.exit_code is None:
        end = "ended, its exit code is not known"
    elif member.exit_code > 128 or member.exit_code < 0:
        # a shell, and our launcher, report a killed process as 128 + signal; subprocess reports it as -signal
        signal = member.exit_code - 128 if member.exit_code > 128 else -member.exit_code
        end = f"was killed by signal {signal} (exit code {member.exit_code})"
    else:
        end = f"ended with exit code {member.exit_code}"
    return f"{who} {end}"
