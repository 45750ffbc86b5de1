"""Exports of versions: the serving targets of teams, what was measured of each export, and which target it serves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from platform_core.distribution.content.manifest import from_document
from platform_core.errors import TrainmasterError
from platform_core.registry import export_report
from platform_core.registry.export_report import FILE, MOST_BYTES, Report
from platform_core.registry.exports import Export, Target, best
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.base.identity import now_ms
from webapp.events import services as events
from webapp.jobs import queries as jobs
from webapp.registry import files, hints, measuring, queries
from webapp.registry.models import ExportMeasurement, Model, ModelVersion, ServingTarget
from webapp.registry.signals import exports_known

MOST_TARGETS = 50  # of a team
SHOWN_USES = 5  # named in a sentence


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a version serves a target: by which of its exports, or why by none."""

    target: Target
    export: Export | None
    reasons: tuple[str, ...]
    measurement: ExportMeasurement | None = None  # on the slots that the target names


def targets(teams: Iterable[str] | None) -> QuerySet[ServingTarget]:
    rows = ServingTarget.objects.order_by("team_id", "name")
    return rows if teams is None else rows.filter(team__in=list(teams))


def target_of(row: ServingTarget) -> Target:
    return export_report.target(row.name, row.constraints)


@transaction.atomic
def set_target(actor: Actor, team: str, name: str, fields: Mapping[str, Any]) -> ServingTarget:
    """What exports for this target must meet from now on. Raises request_invalid with the field, and not_allowed."""
    permissions.require(actor, "target.set", team)
    target = export_report.target(name, fields)
    known = targets([team])
    if known.count() >= MOST_TARGETS and not known.filter(name=name).exists():
        why = f"team {team} has {MOST_TARGETS} serving targets, as many as it may have; delete one"
        raise TrainmasterError("request_invalid", what="another serving target", why=why)
    given = {"constraints": export_report.constraints(target), "changed_ms": now_ms()}
    row, _ = ServingTarget.objects.update_or_create(team_id=team, name=name, defaults=given)
    _record("ServingTargetSet", actor, team, name, constraints=row.constraints)
    return row


@transaction.atomic
def delete_target(actor: Actor, team: str, name: str) -> None:
    """Raises not_found, not_allowed, and serving_target_in_use where a gate or a job that has not ended asks for it."""
    permissions.require(actor, "target.set", team)
    if what := "; ".join(_asking(team, name)):
        raise TrainmasterError("serving_target_in_use", name=name, what=what)
    if not targets([team]).filter(name=name).delete()[0]:
        raise TrainmasterError("not_found", what=f"serving target {name} in team {team}")
    _record("ServingTargetDeleted", actor, team, name)


def _asking(team: str, name: str) -> Iterator[str]:
    """Without their target these would go on as if nothing had been asked."""
    gated = Model.objects.filter(team=team, deleted_ms=None, gate__serving_target=name).order_by("name")
    if models := [model.name for model in gated[: SHOWN_USES + 1]]:
        yield f"the {'gates' if len(models) > 1 else 'gate'} of {_some(models)}"
    running = jobs.not_ended(team, spec__serving_target=name)
    if names := [f"{job.name} ({job.id})" for job in running]:
        yield f"the {'jobs' if len(names) > 1 else 'job'} {_some(names)}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN_USES]) + (" and more" if len(names) > SHOWN_USES else "")


def _record(kind: str, actor: Actor, team: str, name: str, **data: Any) -> None:
    events.record(kind, f"target:{team}/{name}", actor=actor.name, team=team, cause=name, data=data,
                  notify=(f"models:{team}",))  # fmt: skip


def ask_for_report(version: ModelVersion) -> None:
    """Reads its `export.json` in the background, where its files have one."""
    if queries.has_file(version, FILE):
        hints.read_exports(version.id)


def read_again(actor: Actor, version: ModelVersion) -> None:
    """Raises not_allowed; does nothing where its files have no report."""
    permissions.require(actor, "model.register", version.model.team_id)
    ask_for_report(version)


def read_report(version_id: str) -> None:
    """Keeps with the version what its `export.json` says of files that are as it says, and has them measured for the
    targets that name a GPU type. Safe to run again."""
    version = ModelVersion.objects.select_related("model", "manifest", "created_by").get(id=version_id)
    kept: dict[str, Any] = {"at_ms": now_ms(), "problem": "", "report": None}
    try:
        kept["report"] = export_report.as_mapping(_checked(version))
    except TrainmasterError as error:
        kept["problem"] = error.sentence
    ModelVersion.objects.filter(id=version_id).update(exports=kept)
    version.exports = kept
    name, team = version.model.name, version.model.team_id
    events.record("ExportsRead", f"export:{version_id}", actor="system", team=team, cause=f"{name} v{version.version}",
                  data={"problem": kept["problem"]}, notify=(f"models:{team}",))  # fmt: skip
    measuring.ask_for_all(version, map(target_of, targets([team])))
    exports_known.send(ModelVersion, version=version)


def measure(actor: Actor, version: ModelVersion, name: str) -> ExportMeasurement:
    """Has a job measure the exports on the slots of this serving target. Raises not_found and what `ask` raises."""
    row = targets([version.model.team_id]).filter(name=name).first()
    if row is None:
        raise TrainmasterError("not_found", what=f"serving target {name} in team {version.model.team_id}")
    return measuring.ask(actor, version, target_of(row))


def report_of(version: ModelVersion) -> Report | None:
    """None where there is none, or none that can be read."""
    document = version.exports.get("report")
    return export_report.read(document) if document else None


def verdict(version: ModelVersion, target: Target) -> Verdict:
    if problem := version.exports.get("problem"):
        return Verdict(target, None, (f"its report cannot be read: {problem}",))
    report = report_of(version)
    if report is None or not target.gpu_type:
        return Verdict(target, *best(target, report.exports if report else ()))
    measurement = measuring.newest(version, target)
    measured, why = measuring.result_of(measurement, target)
    if measured is None:
        return Verdict(target, None, (why,), measurement)
    return Verdict(target, *best(target, measured.exports), measurement)


def verdicts(version: ModelVersion, rows: Iterable[ServingTarget]) -> list[Verdict]:
    return [verdict(version, target_of(row)) for row in rows]


def refusals(version: ModelVersion, name: str) -> tuple[str, ...]:
    """Why no export of the version serves the target of this name of its team; empty: one does."""
    row = targets([version.model.team_id]).filter(name=name).first()
    return verdict(version, target_of(row)).reasons if row else ("the team has no such serving target",)


def _checked(version: ModelVersion) -> Report:
    """The report; an export whose registered file is another one than it measured has that as its problem."""
    path, data = files.read(version, FILE, MOST_BYTES)
    try:
        report = export_report.read(json.loads(data))
    except (ValueError, RecursionError) as error:
        raise TrainmasterError("request_invalid", what=path, why=f"it is not JSON: {error}") from error
    folder = path.removesuffix(FILE)
    assert version.manifest is not None
    digests = {entry.path: entry.sha256 for entry in from_document(version.manifest.document).files}
    return replace(
        report, exports=tuple(_as_registered(export, report, folder, digests) for export in report.exports)
    )


def _as_registered(export: Export, report: Report, folder: str, digests: Mapping[str, str]) -> Export:
    if export.problem:
        return export
    registered = digests.get(f"{folder}{export.file}")
    if registered is None:
        return replace(export, problem=f"its file {export.file} was not registered")
    if registered != report.digests.get(export.file):
        return replace(
            export, problem=f"its file {export.file} is another one than was measured: the SHA-256 differs"
        )
    return export
