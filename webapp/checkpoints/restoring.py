"""From which checkpoint a job goes on when the one that it would have begun from is no good."""

from platform_core.checkpointing.restore import Chosen, choose
from platform_core.checkpointing.retention import Kept
from webapp.checkpoints import queries
from webapp.checkpoints.models import Checkpoint
from webapp.jobs import queries as job_queries


def instead(job_id: str) -> Chosen | None:
    """The newest that is whole of those the job saved, and below them the one that it was submitted with."""
    job = job_queries.find(job_id)
    assert job is not None, "an attempt's job exists"
    own = queries.with_recalls(Checkpoint.objects.filter(job=job, deleted_ms=None))
    kept = [Kept(row.id, row.attempt, row.step, good=not row.damaged and not row.recalled) for row in own]
    given = queries.living(id=job.spec.get("resume_from", "")).first()
    if given is not None:
        kept.append(Kept(given.id, 0, given.step))
    chosen = choose(kept)
    return chosen if isinstance(chosen, Chosen) else None
