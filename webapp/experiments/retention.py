"""Removes runs and experiments for good that were deleted days ago, with their points, values and files."""

import logging

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef

from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS
from trainmaster.store import open_store
from webapp.artifacts import queries as artifacts
from webapp.base.identity import now_ms
from webapp.events import services as events
from webapp.events.services import Happening
from webapp.experiments.models import Experiment, Run

log = logging.getLogger(__name__)
BATCH = 200  # runs of one transaction
FOLDERS = ("runs", "values")  # of the store; a run has a folder of its id in each


def remove_deleted(at_ms: int | None = None) -> int:
    """Removes what was deleted longer ago than the setting says. Returns how many runs. Safe to repeat at any point.

    The rows go first: a file without a run is never shown, a run without its files would be.
    """
    before = (now_ms() if at_ms is None else at_ms) - settings.RUN_RETENTION_DAYS * DAY_MS
    removed = 0
    while ids := _remove_some(before):
        removed += len(ids)
        for run_id in ids:
            _remove_files(run_id)
    _remove_experiments(before)
    return removed


@transaction.atomic
def _remove_some(before_ms: int) -> list[str]:
    rows = Run.objects.select_for_update(of=("self",), skip_locked=True).select_related("experiment")
    runs = list(rows.filter(deleted_ms__lt=before_ms).order_by("deleted_ms", "id")[:BATCH])
    events.record_all(
        [
            Happening("RunRemoved", f"run:{run.id}", "system", run.experiment.team_id, f"run {run.name}")
            for run in runs
        ]
    )
    ids = [run.id for run in runs]
    Run.objects.filter(id__in=ids).delete()  # points, values and lists of files go with the rows
    return ids


def _remove_files(run_id: str) -> None:
    """Files that became a version of a model stay. What the store cannot delete now stays behind and is logged."""
    store = open_store(settings.STORE_URL)
    for folder in FOLDERS:
        try:
            for entry in list(store.list(f"{folder}/{run_id}/")):
                base = f"{settings.STORE_URL.rstrip('/')}/{'/'.join(entry.path.split('/')[:3])}"
                if not artifacts.is_source(base):
                    store.delete(entry.path)
        except TrainmasterError as error:
            log.warning("files of the removed run %s stay behind: %s", run_id, error)


def _remove_experiments(before_ms: int) -> None:
    """Of those that have no runs any more."""
    runs = Run.objects.filter(experiment=OuterRef("id"))
    with transaction.atomic():
        rows = Experiment.objects.select_for_update(of=("self",), skip_locked=True)
        for row in rows.filter(~Exists(runs), deleted_ms__lt=before_ms):
            events.record(
                "ExperimentRemoved", f"experiment:{row.pk}", actor="system", team=row.team_id, cause=row.name
            )
            row.delete()
