"""Models that a process saved while it trained; the datasets and models that a run read and made."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from platform_core.errors import TrainmasterError
from platform_core.json_values import storable
from webapp.accounts.permissions import Actor, require
from webapp.base.identity import new_run_id, now_ms
from webapp.experiments.models import Experiment, LoggedModel, Run, RunDataset, RunModel
from webapp.experiments.runs import locked

MAX_NAME = 500
MAX_FIELDS = 2_000  # tags, parameters or metrics of one model


def create_logged_model(
    actor: Actor,
    experiment: Experiment,
    name: str,
    *,
    kind: str = "",
    run: Run | None = None,
    parameters: Mapping[str, str] | None = None,
    tags: Mapping[str, str] | None = None,
) -> LoggedModel:
    """A pending model, whose files are about to come."""
    require(actor, "experiment.edit", experiment.team_id, what=f"experiment {experiment.pk}")
    now = now_ms()
    return LoggedModel.objects.create(
        id=f"m-{new_run_id()}",
        experiment=experiment,
        run=run,
        name=_bounded(name, "name"),
        kind=_bounded(kind, "kind"),
        parameters=_within("parameters", storable(dict(parameters or {}))),
        tags=_within("tags", storable(dict(tags or {}))),
        created_ms=now,
        changed_ms=now,
    )


def find_logged_model(actor: Actor, model_id: str, *, deleted: bool = False) -> LoggedModel:
    """Raises not_found."""
    rows = LoggedModel.objects.select_related("experiment", "run").filter(id=model_id)
    row = rows.first() if deleted else rows.filter(deleted_ms=None).first()
    what = f"logged model {model_id[:60]}"
    if row is None:
        raise TrainmasterError("not_found", what=what)
    require(actor, "experiment.view", row.experiment.team_id, what=what)
    return row


def logged_models(actor: Actor, experiments: Sequence[Experiment]) -> list[LoggedModel]:
    """Models that are not deleted, newest first."""
    for experiment in experiments:
        require(actor, "experiment.view", experiment.team_id, what=f"experiment {experiment.pk}")
    rows = LoggedModel.objects.select_related("experiment", "run").filter(deleted_ms=None)
    return list(rows.filter(experiment__in=[e.pk for e in experiments]).order_by("-created_ms", "id"))


@transaction.atomic
def finalize_logged_model(actor: Actor, model: LoggedModel, state: str) -> LoggedModel:
    return _write(_locked(actor, model), state=state)


@transaction.atomic
def set_logged_model_tags(actor: Actor, model: LoggedModel, tags: Mapping[str, str | None]) -> LoggedModel:
    """Adds and replaces tags; None removes one."""
    row = _locked(actor, model)
    merged = {key: value for key, value in {**row.tags, **tags}.items() if value is not None}
    return _write(row, tags=_within("tags", storable(merged)))


@transaction.atomic
def add_logged_model_parameters(actor: Actor, model: LoggedModel, given: Mapping[str, str]) -> LoggedModel:
    row = _locked(actor, model)
    return _write(row, parameters=_within("parameters", storable({**row.parameters, **given})))


@transaction.atomic
def delete_logged_model(actor: Actor, model: LoggedModel) -> None:
    _write(_locked(actor, model), deleted_ms=now_ms())


@transaction.atomic
def log_model_metrics(actor: Actor, run: Run, metrics: Sequence[Mapping[str, Any]]) -> None:
    """Keeps the newest value of each key, run and dataset on its model. Models that are not there are passed over."""
    by_model: dict[str, list[Mapping[str, Any]]] = {}
    for metric in metrics:
        by_model.setdefault(metric["model_id"], []).append(metric)
    rows = LoggedModel.objects.select_for_update(of=("self",)).select_related("experiment")
    for row in rows.filter(id__in=by_model, experiment__team=run.experiment.team_id).order_by("id"):
        require(actor, "experiment.edit", row.experiment.team_id)
        newest = {_place(metric): metric for metric in row.metrics}
        for metric in by_model[row.id]:
            entry = {**metric, "run_id": run.id}
            before = newest.get(_place(entry))
            if before is None or (before["step"], before["timestamp"]) <= (entry["step"], entry["timestamp"]):
                newest[_place(entry)] = entry
        _write(row, metrics=_within("metrics", list(newest.values())))


def _place(metric: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(metric[name]) for name in ("key", "run_id", "dataset_name", "dataset_digest"))


@transaction.atomic
def log_inputs(
    actor: Actor, run: Run, datasets: Sequence[Mapping[str, Any]], models: Sequence[tuple[str, int]]
) -> None:
    """Datasets count once by name and digest; the first description stays."""
    row = locked(actor, run)
    RunDataset.objects.bulk_create(
        [RunDataset(run=row, **storable(dict(dataset))) for dataset in datasets], ignore_conflicts=True
    )
    _link(row, models, "input")


@transaction.atomic
def log_outputs(actor: Actor, run: Run, models: Sequence[tuple[str, int]]) -> None:
    _link(locked(actor, run), models, "output")


def _link(run: Run, models: Sequence[tuple[str, int]], role: str) -> None:
    known = set(RunModel.objects.filter(run=run, role=role).values_list("model_id", "step"))
    new = [RunModel(run=run, role=role, model_id=_bounded(m, "model_id", 64), step=s) for m, s in models]
    RunModel.objects.bulk_create([link for link in new if (link.model_id, link.step) not in known])
    _within("models", [*known, *new])


def _locked(actor: Actor, model: LoggedModel) -> LoggedModel:
    rows = LoggedModel.objects.select_for_update(of=("self",)).select_related("experiment", "run")
    row = rows.filter(pk=model.pk, deleted_ms=None).first()
    what = f"logged model {model.pk}"
    if row is None:
        raise TrainmasterError("not_found", what=what)
    require(actor, "experiment.edit", row.experiment.team_id, what=what)
    return row


def _write(row: LoggedModel, **values: Any) -> LoggedModel:
    for name, value in values.items():
        setattr(row, name, value)
    row.changed_ms = now_ms()
    row.save(update_fields=[*values, "changed_ms"])
    return row


def _within(kind: str, values: Any) -> Any:
    if len(values) > MAX_FIELDS:
        raise TrainmasterError(
            "too_large", what="It", size=f"{len(values):,} {kind}", limit=f"{MAX_FIELDS:,}"
        )
    return values


def _bounded(text: str, what: str, limit: int = MAX_NAME) -> str:
    if len(text) > limit:
        why = f"it has {len(text):,} characters; the limit is {limit:,}"
        raise TrainmasterError("request_invalid", what=what, why=why)
    return str(storable(text))
