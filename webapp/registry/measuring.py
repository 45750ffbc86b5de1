"""Exports are measured where they are served: a job on a slot of the target's GPU type runs each and hands over what it
measured. Any step may be repeated.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import replace

from django.db import IntegrityError, models, transaction

from platform_core.errors import TrainmasterError
from platform_core.evaluations.states import SETTLED, EvaluationState, follow
from platform_core.jobs import spec as job_specs
from platform_core.jobs.definition import JobSpec
from platform_core.jobs.kind import JobKind
from platform_core.jobs.reader import SpecError
from platform_core.jobs.states import JobState
from platform_core.registry import export_report
from platform_core.registry.export_report import MEASURED, MOST_BYTES, Report
from platform_core.registry.exports import Target
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.base import rounds
from webapp.base.identity import now_ms
from webapp.events import services as events
from webapp.experiments import services as experiments
from webapp.jobs import queries as jobs
from webapp.jobs import services as job_services
from webapp.registry.models import ExportMeasurement, ModelVersion
from webapp.registry.signals import exports_known

log = logging.getLogger(__name__)

COMMAND = "python -m trainmaster.model_export.measure"
MOST_HOURS = 2
_TRY_AGAIN = frozenset({"quota_exceeded"})  # may be otherwise in a while


def ask(actor: Actor, version: ModelVersion, target: Target) -> ExportMeasurement:
    """Has the exports measured anew, unless they are being measured. Raises not_allowed, and request_invalid where the
    target names no GPU type or the version has no report."""
    permissions.require(actor, "model.register", version.model.team_id)
    what = f"measuring the exports of {version} for {target.name}"
    if not target.gpu_type:
        why = "the target names no GPU type, so there is no slot to measure on"
        raise TrainmasterError("request_invalid", what=what, why=why)
    if not version.exports.get("report"):
        raise TrainmasterError(
            "request_invalid", what=what, why="it has no report of exports that can be read"
        )
    rows = ExportMeasurement.objects.filter(version=version.pk, target=target.name).order_by("-number")
    newest = rows.first()
    if newest is not None and newest.state not in SETTLED:
        return newest
    try:
        with transaction.atomic():
            return ExportMeasurement.objects.create(
                version_id=version.pk, target=target.name, gpu_type=target.gpu_type,
                number=newest.number + 1 if newest else 1, asked_by_id=accounts.user_key(actor.username),
                asked_ms=now_ms(),
            )  # fmt: skip
    except IntegrityError:  # somebody else asked between our look and our insert
        return rows[0]


def ask_for_all(version: ModelVersion, targets: Iterable[Target]) -> None:
    """Of a version whose report was read, for each target that names a GPU type; as who registered it."""
    for target in targets:
        if target.gpu_type:
            try:
                ask(actor_of(version.created_by), version, target)
            except TrainmasterError as error:
                log.info("exports of %s are not measured for %s: %s", version, target.name, error)


def newest(version: ModelVersion, target: Target) -> ExportMeasurement | None:
    """On the slots that the target names now."""
    rows = ExportMeasurement.objects.filter(version=version.pk, target=target.name, gpu_type=target.gpu_type)
    return rows.select_related("job").order_by("-number").first()


def result_of(row: ExportMeasurement | None, target: Target) -> tuple[Report | None, str]:
    """What was measured on the slots of the target, or why nothing was."""
    if row is None:
        return None, f"its exports were not measured on {target.gpu_type}"
    if row.state == EvaluationState.FAILED:
        return None, f"its exports could not be measured on {target.gpu_type}: {row.reason}"
    if row.report is None:
        return None, f"its exports are being measured on {target.gpu_type}"
    return export_report.read(row.report), ""


def follow_all() -> None:
    """Submits the jobs that are owed, and keeps what those that have ended measured."""
    rows = ExportMeasurement.objects.exclude(state__in=list(SETTLED)).order_by("pk")
    found = rows.select_related("version__model", "version__manifest", "asked_by")
    rounds.each("export measurement", list(found), _drive)


def _drive(row: ExportMeasurement) -> None:
    if row.version.deleted_ms is not None:
        _settle(row, EvaluationState.FAILED, "the version was deleted")
    elif row.job_id is None:
        _submit(row)
    else:
        _follow(row, row.job_id)


def _submit(row: ExportMeasurement) -> None:
    try:
        job, _ = job_services.accept(
            actor_of(row.asked_by), _spec(row), idempotency_key=f"export measurement {row.pk}", pinned=True
        )
    except SpecError as error:
        _settle(row, EvaluationState.FAILED, " ".join(problem.sentence for problem in error.problems))
    except TrainmasterError as error:
        if error.code in _TRY_AGAIN:
            _open(row).update(reason=error.sentence[:2000])
        else:
            why = f"{row.asked_by.username} cannot submit its job: {error.sentence}"
            _settle(row, EvaluationState.FAILED, why)
    else:
        _open(row).update(job=job.id, reason="")


def _spec(row: ExportMeasurement) -> JobSpec:
    model = f"{row.version.model.name}:{row.version.version}"
    return job_specs.parse(
        {
            "name": f"exports of {model} on {row.gpu_type}"[:120],
            "team": row.version.model.team_id,
            "command": COMMAND,
            "kind": JobKind.BATCH.value,
            "strategy": "custom",
            "gpu_type": row.gpu_type,
            "num_gpus": 1,
            "model": model,
            "experiment": f"exports for {row.target}",
            "max_runtime_hours": MOST_HOURS,
        }
    )


def _follow(row: ExportMeasurement, job_id: str) -> None:
    report = jobs.reports([job_id]).get(job_id)
    if report is None:
        _settle(row, EvaluationState.FAILED, f"its job {job_id} was deleted")
        return
    state = JobState(report.state)
    following = follow(state)
    if following is not None:
        _open(row).exclude(state=following).update(state=following)
    elif state is not JobState.SUCCEEDED:
        why = f"its job {report.state}: {report.reason or 'its page has why'}"
        _settle(row, EvaluationState.FAILED, why)
    elif report.drained:
        _keep(row, job_id)


def _keep(row: ExportMeasurement, job_id: str) -> None:
    """The report of the job, of the files that were registered."""
    try:
        data = experiments.handed_over(job_id, MEASURED, MOST_BYTES)
        if data is None:
            raise TrainmasterError("request_invalid", what=MEASURED, why="its job left none")
        measured = export_report.read(json.loads(data))
    except (TrainmasterError, ValueError, RecursionError) as error:
        _settle(
            row, EvaluationState.FAILED, error.sentence if isinstance(error, TrainmasterError) else str(error)
        )
        return
    registered = export_report.read(row.version.exports["report"])
    known = {export.file: export for export in registered.exports}
    exports = tuple(
        replace(export, problem=known[export.file].problem)
        if export.file in known and known[export.file].problem
        else export
        for export in measured.exports
        if export.file in known
    )
    document = export_report.as_mapping(replace(measured, exports=exports, digests=registered.digests))
    _settle(row, EvaluationState.DONE, "", document)


def _open(row: ExportMeasurement) -> models.QuerySet[ExportMeasurement]:
    return ExportMeasurement.objects.filter(pk=row.pk).exclude(state__in=list(SETTLED))


def _settle(
    row: ExportMeasurement, state: EvaluationState, reason: str, report: dict[str, object] | None = None
) -> None:
    if _open(row).update(state=state, reason=reason[:2000], report=report, ended_ms=now_ms()):
        team = row.version.model.team_id
        events.record(
            "ExportsMeasured", f"export:{row.version_id}", actor="system", team=team,
            cause=f"{row.version} on {row.gpu_type} for {row.target}: {state}",
            data={"job": row.job_id, "reason": reason[:2000]}, notify=(f"models:{team}",),
        )  # fmt: skip
        exports_known.send(ModelVersion, version=row.version)
