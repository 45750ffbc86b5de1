"""What becomes of a gang that failed: another try from the last checkpoint, or the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from platform_core.jobs.job import EndKind, Job, Member, MemberPhase

MAX_RESTARTS = 3
FAILURES_TO_EXCLUDE = 2


@dataclass(frozen=True, slots=True)
class Restart:
    """`from_checkpoint` is '' for a start from nothing; `excluded` are all nodes to avoid from now on."""

    from_checkpoint: str
    excluded: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GiveUp:
    reason: str


def decide(job: Job, max_restarts: int = MAX_RESTARTS) -> Restart | GiveUp:
    """Every failure counts the same, the script's own and the cluster's: a broken script stops in the end."""
    if job.restarts >= max_restarts:
        return GiveUp(f"{job.reason}; it was restarted {job.restarts} times, and {max_restarts} is the limit")
    return Restart(goes_on_from(job), excluded(job))


def goes_on_from(job: Job) -> str:
    """The checkpoint that its next attempt begins with; '' is none."""
    return job.latest_checkpoint or job.spec.resume_from


def excluded(job: Job) -> tuple[str, ...]:
    """Nodes that failed this job twice: once may be bad luck, and small clusters have no spare nodes."""
    counted = Counter(failure.node for failure in job.failures)
    twice = {node for node, times in counted.items() if times >= FAILURES_TO_EXCLUDE}
    return tuple(sorted(twice.union(job.excluded_nodes)))


def failed(member: Member) -> bool:
    """Ended otherwise than by its own exit code 0."""
    return member.ended and (member.exit_code != 0 or member.end is not EndKind.SCRIPT)


def told(member: Member) -> str:
    """Why this member's end failed the gang, as a sentence without its full stop."""
    who = f"rank {member.rank} on {member.node}"
    if member.phase is MemberPhase.LOST:
        return f"{who} was lost" + (f": {member.reason}" if member.reason else "")
    if member.end is EndKind.INFRASTRUCTURE:
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
