"""Removes runs, logged models and experiments for good that were deleted days ago, with points, values and files."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS
from trainmaster.store import open_store
from webapp.artifacts import queries as artifacts
from webapp.base.identity import now_ms
from webapp.events import services as events
from webapp.events.services import Happening
from webapp.experiments.models import Experiment, FileUpload, LoggedModel, Run

log = logging.getLogger(__name__)
BATCH = 200  # runs or logged models of one transaction


def remove_deleted(at_ms: int | None = None) -> int:
    """Removes what was deleted longer ago than the setting says. Returns how many runs. Safe to repeat at any point.

    The rows go first: a file without a run is never shown, a run without its files would be. Logged models go with the
    run that made them.
    """
    before = (now_ms() if at_ms is None else at_ms) - settings.RUN_RETENTION_DAYS * DAY_MS
    removed = 0
    while runs := _remove_runs(before):
        removed += runs
    while _remove_models(LoggedModel.objects.filter(deleted_ms__lt=before)):
        pass
    _remove_experiments(before)
    return removed


def _remove_runs(before_ms: int) -> int:
    with transaction.atomic():
        rows = Run.objects.select_for_update(of=("self",), skip_locked=True).select_related("experiment")
        runs = list(rows.filter(deleted_ms__lt=before_ms).order_by("deleted_ms", "id")[:BATCH])
        events.record_all(
            [
                Happening("RunRemoved", f"run:{run.id}", "system", run.experiment.team_id, f"run {run.name}")
                for run in runs
            ]
        )
        ids = [run.id for run in runs]
        models = _ids(LoggedModel.objects.filter(run__in=ids))
        folders = _folders(ids, models)
        LoggedModel.objects.filter(id__in=models).delete()
        Run.objects.filter(id__in=ids).delete()  # points, values and lists of files go with the rows
    _remove_files(folders)
    return len(ids)


def _remove_models(chosen: QuerySet[LoggedModel]) -> int:
    with transaction.atomic():
        ids = _ids(chosen.select_for_update(of=("self",), skip_locked=True).order_by("id")[:BATCH])
        folders = _folders([], ids)
        LoggedModel.objects.filter(id__in=ids).delete()
    _remove_files(folders)
    return len(ids)


def _ids(rows: QuerySet[Any]) -> list[str]:
    return list(rows.values_list("id", flat=True))


def _folders(runs: Sequence[str], models: Sequence[str]) -> list[str]:
    """Of the store; also those of the parts of files that nobody completed."""
    uploads = FileUpload.objects.filter(Q(run__in=runs) | Q(model__in=models))
    return [
        *(f"{kind}/{run}" for run in runs for kind in ("runs", "values")),
        *(f"logged-models/{model}" for model in models),
        *(f"parts/{upload}" for upload in _ids(uploads)),
    ]


def _remove_files(folders: Iterable[str]) -> None:
    """Files that became a version of a model stay. What the store cannot delete now stays behind and is logged."""
    store = open_store(settings.STORE_URL)
    for folder in folders:
        try:
            for entry in list(store.list(f"{folder}/")):
                base = f"{settings.STORE_URL.rstrip('/')}/{'/'.join(entry.path.split('/')[:3])}"
                if not artifacts.is_source(base):
                    store.delete(entry.path)
        except TrainmasterError as error:
            log.warning("the removed files in %s stay behind: %s", folder, error)


def _remove_experiments(before_ms: int) -> None:
    """Of those that have no runs any more."""
    gone = Experiment.objects.filter(
        ~Exists(Run.objects.filter(experiment=OuterRef("id"))), deleted_ms__lt=before_ms
    )
    while _remove_models(LoggedModel.objects.filter(experiment__in=gone)):
        pass
    with transaction.atomic():
        for row in gone.select_for_update(of=("self",), skip_locked=True):
            events.record(
                "ExperimentRemoved", f"experiment:{row.pk}", actor="system", team=row.team_id, cause=row.name
            )
            row.delete()
