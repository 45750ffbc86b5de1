"""Ranks of a job disagree: nobody begins from what was saved after they last agreed, and the job goes back."""

from django.db import transaction

from platform_core.jobs import events as ev
from platform_core.recovery.corruption import is_vouched_for
from webapp.artifacts import services as artifacts
from webapp.checkpoints import turns
from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.restoring import instead
from webapp.jobs import queries as job_queries
from webapp.jobs import services as jobs


@transaction.atomic
def go_back(job_id: str, attempt: int, found: job_queries.Found, actor: str) -> None:
    """Told twice, it counts once. A checkpoint that comes at the same moment is seen here, or sees what was found."""
    jobs.lock(job_id)
    row = jobs.note_corruption(job_id, attempt, found)
    if row is None:
        return
    damaged = _distrust(job_id, job_queries.distrust(row))
    event = ev.Corrupted(
        at_ms=found.at_ms, actor=actor, cause=row.sentence, attempt=attempt, step=row.step,
        nodes=tuple(row.nodes), damaged=tuple(damaged), instead=instead(job_id),
    )  # fmt: skip
    jobs.observe(job_id, event)


def _distrust(job_id: str, why: str) -> list[str]:
    """Marks the checkpoints that no agreement vouches for. Returns their ids."""
    seen = job_queries.agreements(job_id)
    rows = Checkpoint.objects.filter(job=job_id, deleted_ms=None).order_by("manifest_id", "id")
    doubtful = [row for row in rows if not is_vouched_for(row.attempt, row.step, seen)]
    for manifest in dict.fromkeys(row.manifest_id for row in doubtful):
        artifacts.lock(manifest)
    ids = [row.id for row in doubtful]
    if Checkpoint.objects.filter(id__in=ids, damaged="").update(damaged=why):
        turns.give([job_id])
    return ids
