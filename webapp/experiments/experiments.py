"""Verbs of experiments: create, edit, archive, delete, restore."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypedDict, Unpack

from django.db import IntegrityError, transaction

from platform_core.errors import TrainmasterError
from platform_core.experiments import fields
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor, require
from webapp.base.identity import now_ms
from webapp.events import services as events
from webapp.experiments.models import Experiment

DEFAULT_EXPERIMENT = "Default"


class ExperimentChanges(TypedDict, total=False):
    name: str
    description: str
    tags: Mapping[str, str]  # replaces all


def create_experiment(
    actor: Actor,
    team: str,
    name: str,
    *,
    description: str = "",
    tags: Mapping[str, str] | None = None,
    artifact_folder: str = "",
) -> Experiment:
    """Raises duplicate_name when the team has an experiment of this name that is not deleted."""
    require(actor, "experiment.edit", team)
    values = _checked({"name": name, "description": description, "tags": tags or {}})
    with transaction.atomic(), _unique(values["name"]):
        now = now_ms()
        experiment = Experiment.objects.create(
            team_id=team,
            artifact_folder=artifact_folder,
            created_ms=now,
            changed_ms=now,
            created_by_id=accounts.user_key(actor.username) if actor.username else None,
            **values,
        )
        record("ExperimentCreated", experiment, actor)
    return experiment


def ensure_experiment(actor: Actor, team: str, name: str) -> Experiment:
    """Returns the team's experiment of this name; creates it when there is none."""
    require(actor, "experiment.edit", team)
    name = fields.name(name, "experiment", fields.MAX_EXPERIMENT_NAME)
    return named(team, name, accounts.user_key(actor.username) if actor.username else None)


def named(team: str, name: str, creator: int | None) -> Experiment:
    """As `ensure_experiment`, for callers that have checked the permission."""
    now = now_ms()
    experiment, _ = Experiment.objects.get_or_create(
        team_id=team,
        name=name,
        deleted_ms=None,
        defaults={"created_ms": now, "changed_ms": now, "created_by_id": creator},
    )
    return experiment


def locked_for_run(team: str, name: str, creator: int | None) -> Experiment:
    """As `named`, locked against its deletion until the end of the transaction."""
    while True:
        experiment = named(team, name, creator)
        living = Experiment.objects.select_for_update(of=("self",), no_key=True).filter(deleted_ms=None)
        if locked := living.filter(pk=experiment.pk).first():
            return locked


def update_experiment(
    actor: Actor, experiment: Experiment, **changes: Unpack[ExperimentChanges]
) -> Experiment:
    values = _checked(changes)
    with transaction.atomic(), _unique(str(values.get("name", ""))):
        row = _locked(actor, "experiment.edit", experiment)
        before = {name: getattr(row, name) for name in values if getattr(row, name) != values[name]}
        if before:
            after = {name: values[name] for name in before}
            _write(row, **after)
            record("ExperimentChanged", row, actor, {"before": before, "after": after})
    return row


@transaction.atomic
def set_experiment_tags(actor: Actor, experiment: Experiment, tags: Mapping[str, str | None]) -> Experiment:
    """Adds and replaces tags; None removes one."""
    row = _locked(actor, "experiment.edit", experiment)
    merged = {name: value for name, value in {**row.tags, **tags}.items() if value is not None}
    return update_experiment(actor, row, tags=merged)


@transaction.atomic
def archive_experiment(actor: Actor, experiment: Experiment) -> Experiment:
    """Hides an experiment from lists. Its runs stay as they are."""
    row = _locked(actor, "experiment.edit", experiment)
    if row.archived_ms is None:
        _write(row, archived_ms=now_ms())
        record("ExperimentArchived", row, actor)
    return row


@transaction.atomic
def delete_experiment(actor: Actor, experiment: Experiment) -> Experiment:
    """Hides an experiment with its runs until it is restored, or retention removes them.

    Raises illegal_transition while a run's job has not ended."""
    row = _locked(actor, "experiment.delete", experiment)
    if row.deleted_ms is not None:
        return row
    runs = row.runs.select_for_update(of=("self",)).filter(deleted_ms=None)
    living = runs.filter(job__isnull=False, ended_ms=None).order_by("id").first()
    if living is not None:
        sentence = (
            f"Job {living.id} of experiment {row.name} has not ended; cancel it or let it end, then delete"
        )
        raise TrainmasterError("illegal_transition", sentence)
    others = runs.exclude(owner__username=actor.username).exclude(owner=None)
    if others.exists():
        require(actor, "experiment.delete", row.team_id)  # as a lead, not as the owner
    now = now_ms()
    deleted = runs.update(deleted_ms=now, changed_ms=now)
    _write(row, deleted_ms=now)
    record("ExperimentDeleted", row, actor, {"runs": deleted})
    return row


@transaction.atomic
def restore_experiment(actor: Actor, experiment: Experiment) -> Experiment:
    """Brings a deleted experiment back with the runs that were deleted with it, or takes it out of the archive."""
    row = _locked(actor, "experiment.edit", experiment)
    if row.deleted_ms is not None:
        with _unique(row.name):
            deleted_ms, row.deleted_ms = row.deleted_ms, None
            row.save(update_fields=["deleted_ms"])
        runs = row.runs.filter(deleted_ms=deleted_ms).update(deleted_ms=None, changed_ms=now_ms())
        record("ExperimentRestored", row, actor, {"runs": runs})
    elif row.archived_ms is not None:
        _write(row, archived_ms=None)
        record("ExperimentRestored", row, actor)
    return row


def _checked(changes: Mapping[str, Any]) -> dict[str, Any]:
    checks: dict[str, Any] = {
        "name": lambda value: fields.name(value, "experiment", fields.MAX_EXPERIMENT_NAME),
        "description": lambda value: fields.text(value, "description", fields.MAX_DESCRIPTION),
        "tags": fields.tags,
    }
    return {name: checks[name](value) for name, value in changes.items()}


@contextmanager
def _unique(name: str) -> Iterator[None]:
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        raise TrainmasterError("duplicate_name", what="experiment", name=name) from error


def _locked(actor: Actor, action: str, experiment: Experiment) -> Experiment:
    rows = Experiment.objects.select_for_update(of=("self",)).select_related("created_by")
    row = rows.filter(id=experiment.pk).first()
    what = f"experiment {experiment.pk}"
    if row is None:
        raise TrainmasterError("not_found", what=what)
    owner = row.created_by.username if row.created_by else None
    require(actor, action, row.team_id, owner=owner, what=what)
    return row


def _write(row: Experiment, **values: Any) -> None:
    row.changed_ms = now_ms()
    for name, value in values.items():
        setattr(row, name, value)
    row.save(update_fields=["changed_ms", *values])


def record(kind: str, row: Experiment, actor: Actor, data: Mapping[str, Any] | None = None) -> None:
    facts = {"name": row.name, **(data or {})}
    events.record(
        kind, f"experiment:{row.pk}", actor=actor.name, team=row.team_id, cause=row.name, data=facts
    )
