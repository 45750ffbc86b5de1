"""Checkpoints that a person keeps from retention."""

from platform_core.errors import TrainmasterError
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.checkpoints import queries, turns
from webapp.checkpoints.models import Checkpoint
from webapp.events import services as events
from webapp.sockets import services as sockets


def pin(actor: Actor, job_id: str, checkpoint_id: str, *, pinned: bool) -> Checkpoint:
    """Keeps a checkpoint until it is unpinned, whatever the rule of its job says. Idempotent.

    Raises not_found, not_allowed, and request_invalid when its files are deleted already.
    """
    row = queries.find(checkpoint_id)
    if row is None or row.job_id != job_id:
        raise TrainmasterError("not_found", what=f"checkpoint {checkpoint_id} of job {job_id}")
    what = f"checkpoint {row.id}"
    permissions.require(actor, "job.save", row.job.team_id, owner=row.job.user.username, what=what)
    by = actor.username if pinned else ""
    # Of two people the first stays its keeper; a deletion that runs now sees the pin, or is seen here.
    change = queries.kept().filter(id=row.id).exclude(pinned_by=by)
    if change.filter(**({"pinned_by": ""} if pinned else {})).update(pinned_by=by):
        turns.give([job_id])
        events.record(
            "CheckpointPinned" if pinned else "CheckpointUnpinned", f"job:{job_id}", actor=actor.name,
            team=row.job.team_id, cause=f"step {row.step:,}", data={"name": row.job.name, "checkpoint": row.id},
        )  # fmt: skip
        sockets.publish(f"job:{job_id}")
    row.refresh_from_db()
    if row.deleted_ms is not None:
        why = f"its files were deleted by the rule of job {job_id}"
        raise TrainmasterError("request_invalid", what=what, why=why)
    return row
