"""Runs out of sight and back: archive, delete, restore."""

from collections.abc import Sequence

from django.db import transaction

from platform_core.errors import TrainmasterError
from platform_core.experiments.states import ENDED
from webapp.accounts.permissions import Actor
from webapp.base.identity import now_ms
from webapp.events import services as events
from webapp.events.services import Happening
from webapp.experiments.models import Experiment, Run
from webapp.experiments.runs import locked_all, publish, require_living


@transaction.atomic
def archive_runs(actor: Actor, ids: Sequence[str]) -> int:
    """Hides runs from lists, and from nothing else. Returns how many were not archived before."""
    rows = [row for row in locked_all(actor, "experiment.edit", ids) if row.archived_ms is None]
    return _mark(actor, "RunArchived", rows, archived_ms=now_ms())


@transaction.atomic
def delete_runs(actor: Actor, ids: Sequence[str]) -> int:
    """Hides runs and all below them everywhere until they are restored, or retention removes them.

    Returns how many were not deleted before. Raises illegal_transition while a run's job has not ended.
    """
    rows = locked_all(actor, "experiment.delete", _with_descendants(ids))
    rows = [row for row in rows if row.deleted_ms is None]
    for row in rows:
        if row.job_id is not None and row.state not in ENDED:
            sentence = f"Job {row.id} has not ended; cancel it or let it end, then delete its run"
            raise TrainmasterError("illegal_transition", sentence)
    return _mark(actor, "RunDeleted", rows, deleted_ms=now_ms())


@transaction.atomic
def restore_runs(actor: Actor, ids: Sequence[str]) -> int:
    """Brings deleted runs back with the runs below that were deleted with them; takes others out of the archive.

    Raises illegal_transition when the experiment of a run is deleted. Returns how many changed.
    """
    for experiment in Experiment.objects.filter(runs__in=ids).distinct().order_by("id"):
        require_living(experiment)
    asked = locked_all(actor, "experiment.edit", ids)
    marks = {row.deleted_ms for row in asked if row.deleted_ms is not None}
    below = locked_all(
        actor, "experiment.edit", _with_descendants([row.id for row in asked if row.deleted_ms])
    )
    deleted = [row for row in below if row.deleted_ms in marks]
    archived = [row for row in asked if row.deleted_ms is None and row.archived_ms is not None]
    return _mark(actor, "RunRestored", deleted, deleted_ms=None) + _mark(
        actor, "RunRestored", archived, archived_ms=None
    )


def _with_descendants(ids: Sequence[str]) -> list[str]:
    known, newest = set(ids), set(ids)
    while newest:
        children = Run.objects.filter(parent__in=newest).values_list("id", flat=True)
        newest = set(children) - known
        known |= newest
    return sorted(known)


def _mark(actor: Actor, kind: str, rows: Sequence[Run], **mark: int | None) -> int:
    if not rows:
        return 0
    Run.objects.filter(id__in=[row.id for row in rows]).update(**mark, changed_ms=now_ms())
    events.record_all(
        [
            Happening(
                kind,
                f"job:{row.id}" if row.job_id else f"run:{row.id}",
                actor.name,
                row.experiment.team_id,
                f"run {row.name} of {row.experiment.name}",
                data={"name": row.name, "experiment": row.experiment.name},
            )
            for row in rows
        ]
    )
    publish(rows)
    return len(rows)
