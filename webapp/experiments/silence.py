"""Runs without a job whose process has fallen silent: they end as failed, and go on when it reports again."""

from typing import Any

from django.conf import settings
from django.db import transaction

from platform_core.experiments.lineage import SILENT_SINCE
from platform_core.experiments.states import RunState
from webapp.base.identity import now_ms
from webapp.events import services as events
from webapp.events.services import Happening
from webapp.experiments.models import Run
from webapp.experiments.runs import publish


@transaction.atomic
def end_silent_runs(at_ms: int | None = None) -> int:
    """Ends runs without a job that have reported nothing for too long. Returns how many.

    Their end is their last report. Only the SDK sends signs of life, so other runs are left alone.
    """
    now = now_ms() if at_ms is None else at_ms
    silent = Run.objects.filter(job=None, state=RunState.RUNNING, source="sdk", deleted_ms=None)
    silent = silent.filter(reported_ms__lt=now - settings.RUN_SILENCE_SECONDS * 1000)
    rows = list(silent.select_for_update(of=("self",)).select_related("experiment").order_by("id")[:1_000])
    for row in rows:
        row.ended_ms = row.reported_ms or row.created_ms
        row.state, row.changed_ms = RunState.FAILED, now
        row.lineage = {**row.lineage, SILENT_SINCE: row.ended_ms}
    Run.objects.bulk_update(rows, ["state", "ended_ms", "changed_ms", "lineage"], batch_size=500)
    cause = f"its process reported nothing for {settings.RUN_SILENCE_SECONDS} s"
    events.record_all(
        [
            Happening("RunSilent", f"run:{row.id}", "system", row.experiment.team_id, cause, now)
            for row in rows
        ]
    )
    publish(rows)
    return len(rows)


def resumed(run: Run) -> dict[str, Any]:
    """The changes that take back an end for silence; none for another run."""
    if SILENT_SINCE not in run.lineage:
        return {}
    lineage = {name: value for name, value in run.lineage.items() if name != SILENT_SINCE}
    return {"state": RunState.RUNNING, "ended_ms": None, "lineage": lineage}
