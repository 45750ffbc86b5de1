"""Maps the rows of a job to the core's value and back."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from platform_core.jobs import spec as specification
from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import Failure, Job, Member, MemberPhase, Stop
from platform_core.jobs.states import JobState
from webapp.jobs import models


def failures(row: models.Job) -> tuple[Failure, ...]:
    """Returns its failures as the core takes them, the oldest first."""
    return tuple(Failure(**failure | {"end": EndReason(failure["end"])}) for failure in row.failures)


def job_value(row: models.Job, attempt: models.Attempt | None, members: Iterable[models.Member]) -> Job:
    """Returns the core's value of a job with the members of its current attempt."""
    return Job(
        id=row.id,
        spec=specification.restore(row.spec),
        state=JobState(row.state),
        version=row.version,
        attempt=row.attempt,
        restarts=row.restarts,
        failures=failures(row),
        excluded_nodes=tuple(row.excluded_nodes),
        stop=Stop(row.stop),
        latest_checkpoint=row.latest_checkpoint,
        latest_step=row.latest_step,
        latest_ms=row.latest_ms,
        latest_attempt=row.latest_attempt,
        save_ms=row.save_ms,
        unsaved_step=row.unsaved_step,
        stop_grace_ms=row.stop_grace_ms,
        reached=-1 if row.first_step is None or row.step is None else row.step,
        running_ms=attempt.running_ms if attempt else None,
        not_before_ms=row.not_before_ms,
        submitted_ms=row.submitted_ms,
        waiting_since_ms=row.waiting_since_ms,
        started_ms=row.started_ms,
        finished_ms=row.finished_ms,
        reason=row.reason,
        end=EndReason(row.end) if row.end else None,
        members=tuple(
            Member(
                m.node_id,
                m.rank,
                tuple(m.slots),
                MemberPhase(m.phase),
                m.exit_code,
                m.reason,
                EndReason(m.end),
            )
            for m in sorted(members, key=lambda m: m.rank)
        ),
    )


def job_columns(job: Job) -> dict[str, Any]:
    """Returns the columns that `advance` may have changed."""
    return {
        "state": job.state,
        "version": job.version,
        "attempt": job.attempt,
        "restarts": job.restarts,
        "failures": [asdict(failure) for failure in job.failures],
        "excluded_nodes": list(job.excluded_nodes),
        "stop": job.stop,
        "latest_checkpoint": job.latest_checkpoint,
        "latest_step": job.latest_step,
        "latest_ms": job.latest_ms,
        "latest_attempt": job.latest_attempt,
        "save_ms": job.save_ms,
        "unsaved_step": job.unsaved_step,
        "stop_grace_ms": job.stop_grace_ms,
        "waiting_since_ms": job.waiting_since_ms,
        "not_before_ms": job.not_before_ms,
        "started_ms": job.started_ms,
        "finished_ms": job.finished_ms,
        "reason": job.reason,
        "end": job.end or "",
    }
