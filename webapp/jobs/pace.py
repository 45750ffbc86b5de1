"""How fast a job goes."""

from webapp.jobs.models import Job


def remaining_ms(job: Job) -> int | None:
    """At the pace of the running attempt: steps still to do at the mean time of those done."""
    if job.step is None or job.total_steps is None or job.first_step is None:
        return None
    done = job.step - job.first_step
    if done <= 0 or job.first_step_ms is None or job.progress_ms is None:
        return None
    return max(0, job.total_steps - job.step) * (job.progress_ms - job.first_step_ms) // done
