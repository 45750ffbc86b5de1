"""The queue as a person may see it: every waiting job in its place, named only to those who may see the job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.accounts.permissions import Actor, may
from webapp.base.identity import now_ms
from webapp.jobs import queries as jobs
from webapp.scheduling import queries

if TYPE_CHECKING:
    from webapp.jobs.models import Job

NOT_CONSIDERED_YET = "The scheduler looks at it within seconds."


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One waiting job. For a job of another team `job_id`, `user` and `reason` are empty."""

    position: int
    job_id: str
    name: str  # "a job of vision" for another team's
    team: str
    user: str
    gpus: int
    gpu_type: str
    priority: int
    since_ms: int
    preempted: bool
    reserved: bool  # the scheduler keeps nodes for it
    reserved_on: str  # "node-1, node-2 and 12 more"
    expected_start: str  # "in 4 min to 20 min", or "" without a forecast
    earliest_ms: int | None
    latest_ms: int | None
    reason: str
    may_prioritise: bool


def entries(actor: Actor, limit: int) -> list[QueueEntry]:
    """The first `limit` waiting jobs, next to start first."""
    waiting = list(jobs.in_queue_order(jobs.visible(None))[:limit])
    now = now_ms()
    forecasts = queries.forecasts([job.id for job in waiting])
    visible = {job.id for job in waiting if may(actor, "job.view", job.team_id)}
    with_names = jobs.calling_by_names([job.wait_sentence for job in waiting], actor.sees)
    node_names = queries.kept_places([job.wait_place for job in waiting if job.id in visible])

    def entry(position: int, job: Job) -> QueueEntry:
        seen = job.id in visible
        forecast = queries.expected_start(forecasts.get(job.id), job.wait_numbers)
        return QueueEntry(
            position=position,
            job_id=job.id if seen else "",
            name=job.name if seen else f"a job of {job.team_id}",
            team=job.team_id,
            user=job.user.username if seen else "",
            gpus=job.num_gpus,
            gpu_type=job.gpu_type,
            priority=job.priority,
            since_ms=job.waiting_since_ms,
            preempted=job.state == "preempted",
            reserved="reserved_start_ms" in job.wait_numbers,
            reserved_on=node_names(job.wait_place) if seen else "",
            expected_start=forecast.in_words(now) if forecast else "",
            earliest_ms=forecast.early_ms if forecast else None,
            latest_ms=forecast.late_ms if forecast else None,
            reason=with_names(job.wait_sentence or NOT_CONSIDERED_YET) if seen else "",
            may_prioritise=may(actor, "job.prioritise", job.team_id),
        )

    return [entry(position, job) for position, job in enumerate(waiting, start=1)]
