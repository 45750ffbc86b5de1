"""Exports of versions: the serving targets of teams, what was measured of each export, and which target it serves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from platform_core.distribution.content.layout import stored_path
from platform_core.distribution.content.manifest import from_document
from platform_core.errors import TrainmasterError
from platform_core.registry import export_report
from platform_core.registry.export_report import FILE, MOST_BYTES, Report
from platform_core.registry.exports import Export, Target, best
from platform_core.units import format_bytes
from trainmaster.store import open_store
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.artifacts import queries as artifacts
from webapp.base.identity import now_ms
from webapp.events import services as events
from webapp.registry import hints
from webapp.registry.models import ModelVersion, ServingTarget

MOST_TARGETS = 50  # of a team


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a version serves a target: by which of its exports, or why by none."""

    target: Target
    export: Export | None
    reasons: tuple[str, ...]


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
    """Raises not_found, and not_allowed."""
    permissions.require(actor, "target.set", team)
    if not targets([team]).filter(name=name).delete()[0]:
        raise TrainmasterError("not_found", what=f"serving target {name} in team {team}")
    _record("ServingTargetDeleted", actor, team, name)


def _record(kind: str, actor: Actor, team: str, name: str, **data: Any) -> None:
    events.record(kind, f"target:{team}/{name}", actor=actor.name, team=team, cause=name, data=data,
                  notify=(f"models:{team}",))  # fmt: skip


def ask_for_report(version: ModelVersion) -> None:
    """Reads its `export.json` in the background, where its files have one."""
    if version.manifest_id and _report_path(artifacts.file_list(version.manifest_id)):
        hints.read_exports(version.id)


def read_again(actor: Actor, version: ModelVersion) -> None:
    """Raises not_allowed; does nothing where its files have no report."""
    permissions.require(actor, "model.register", version.model.team_id)
    ask_for_report(version)


def read_report(version_id: str) -> None:
    """Keeps with the version what its `export.json` says of files that are as it says. Safe to run again."""
    version = ModelVersion.objects.select_related("model", "manifest").get(id=version_id)
    kept: dict[str, Any] = {"at_ms": now_ms(), "problem": "", "report": None}
    try:
        kept["report"] = export_report.as_mapping(_checked(version))
    except TrainmasterError as error:
        kept["problem"] = error.sentence
    ModelVersion.objects.filter(id=version_id).update(exports=kept)
    name, team = version.model.name, version.model.team_id
    events.record("ExportsRead", f"export:{version_id}", actor="system", team=team, cause=f"{name} v{version.version}",
                  data={"problem": kept["problem"]}, notify=(f"models:{team}",))  # fmt: skip


def report_of(version: ModelVersion) -> Report | None:
    """None where there is none, or none that can be read."""
    document = version.exports.get("report")
    return export_report.read(document) if document else None


def verdict(version: ModelVersion, target: Target) -> Verdict:
    if problem := version.exports.get("problem"):
        return Verdict(target, None, (f"its report cannot be read: {problem}",))
    report = report_of(version)
    return Verdict(target, *best(target, report.exports if report else ()))


def verdicts(version: ModelVersion, rows: Iterable[ServingTarget]) -> list[Verdict]:
    return [verdict(version, target_of(row)) for row in rows]


def refusals(version: ModelVersion, name: str) -> tuple[str, ...]:
    """Why no export of the version serves the target of this name of its team; empty: one does."""
    row = targets([version.model.team_id]).filter(name=name).first()
    return verdict(version, target_of(row)).reasons if row else ("the team has no such serving target",)


def _report_path(files: Iterable[Mapping[str, Any]]) -> str:
    """The outermost one; "" for none."""
    paths = [str(file["path"]) for file in files]
    found = [path for path in paths if path == FILE or path.endswith(f"/{FILE}")]
    return min(found, key=lambda path: (path.count("/"), path), default="")


def _checked(version: ModelVersion) -> Report:
    """The report; an export whose registered file is another one than it measured has that as its problem."""
    if version.manifest is None:
        raise TrainmasterError("request_invalid", what=f"the exports of {version}", why="it has no files")
    files = {entry.path: entry for entry in from_document(version.manifest.document).files}
    path = _report_path([{"path": name} for name in files])
    if not path or files[path].size > MOST_BYTES:
        size = format_bytes(files[path].size) if path else "nothing"
        why = f"it has {size}; the limit is {format_bytes(MOST_BYTES)}"
        raise TrainmasterError("request_invalid", what=f"{FILE} of {version}", why=why)
    url = version.manifest.source_url
    data = open_store(url).read_range(stored_path(url, files[path]), 0, files[path].size)
    if hashlib.sha256(data).hexdigest() != files[path].sha256:
        raise TrainmasterError(
            "request_invalid", what=path, why="its bytes have changed since it was registered"
        )
    try:
        report = export_report.read(json.loads(data))
    except (ValueError, RecursionError) as error:
        raise TrainmasterError("request_invalid", what=path, why=f"it is not JSON: {error}") from error
    folder = path.removesuffix(FILE)
    digests = {name: entry.sha256 for name, entry in files.items()}
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
