"""Experiments: create, get, search, rename, delete, restore, tag."""

from typing import Any

from platform_core.errors import TrainmasterError
from webapp.accounts import permissions
from webapp.experiments import queries, services
from webapp.experiments.models import Experiment
from webapp.mlflow import artifact_location, filters, limits, paging, shapes
from webapp.mlflow.endpoint import Call
from webapp.mlflow.errors import MlflowError, exists, invalid, missing

MOST_LISTED = 50_000
VIEWS = {"ACTIVE_ONLY": 1, "DELETED_ONLY": 2, "ALL": 3}
GRAMMAR = filters.Grammar(
    attributes=("name", "experiment_id", "creation_time", "last_update_time"),
    numeric=("creation_time", "last_update_time"),
)
COLUMNS = {
    "name": lambda row: row.name,
    "experiment_id": lambda row: int(shapes.experiment_id(row)),
    "creation_time": lambda row: row.created_ms,
    "last_update_time": lambda row: row.changed_ms,
}


def find(call: Call, reference: str) -> Experiment:
    """Experiment 0 is the team's Default; it appears when it is first asked for."""
    reference = reference or "0"
    try:
        number = int(reference)
    except ValueError:
        raise invalid(
            f"Invalid experiment ID '{reference[:100]}'. Experiment ID must be a valid integer."
        ) from None
    try:
        if number == 0:
            return default(call)
        row = queries.find_experiment(call.actor, number, deleted=True)
    except TrainmasterError as error:
        if error.code != "not_found":
            raise
        raise missing(f"No Experiment with id={number} exists") from None
    if not call.sees(row.team_id):
        raise missing(f"No Experiment with id={number} exists")
    return row


def default(call: Call) -> Experiment:
    try:
        return queries.find_experiment(call.actor, services.DEFAULT_EXPERIMENT, team=call.team, deleted=True)
    except TrainmasterError:
        if not permissions.may(call.actor, "experiment.edit", call.team):
            raise
    return services.ensure_experiment(call.actor, call.team, services.DEFAULT_EXPERIMENT)


def named(call: Call, name: str) -> Experiment | None:
    if name == services.DEFAULT_EXPERIMENT:
        return find(call, "0")
    try:
        return queries.find_experiment(call.actor, name, team=call.team, deleted=True)
    except TrainmasterError as error:
        if error.code != "not_found":
            raise
    return None


def require_active(row: Experiment) -> None:
    if row.deleted_ms is not None:
        raise invalid(
            f"The experiment {shapes.experiment_id(row)} must be in the 'active' state. Current state is deleted."
        )


def create(call: Call) -> dict[str, Any]:
    name = limits.experiment_name(call["name"])
    folder = artifact_location.folder_of(call["artifact_location"] or "")
    tags = limits.stored_tags(call["tags"], limits.MAX_EXPERIMENT_TAG)
    if named(call, name) is not None:
        raise exists(f"Experiment(name={name}) already exists.")
    note = tags.pop(shapes.NOTE_TAG, "")
    row = services.create_experiment(
        call.actor, call.team, name, description=note, tags=tags, artifact_folder=folder
    )
    return {"experiment_id": str(row.pk)}


def get(call: Call) -> dict[str, Any]:
    return {"experiment": shapes.experiment(find(call, call["experiment_id"]))}


def get_by_name(call: Call) -> dict[str, Any]:
    row = named(call, call["experiment_name"])
    if row is None:
        raise missing(f"Could not find experiment with name '{call['experiment_name']}'")
    return {"experiment": shapes.experiment(row)}


def search(call: Call) -> dict[str, Any]:
    size = call["max_results"]
    if size is None or not 1 <= size <= MOST_LISTED:
        shown = 0 if size is None else size
        raise invalid(
            f"Invalid value {shown} for parameter 'max_results' supplied. It must be a positive integer"
            f" and at most {MOST_LISTED}."
        )
    clauses = filters.parse(call["filter"], GRAMMAR)
    if permissions.may(call.actor, "experiment.edit", call.team):
        default(call)
    rows = queries.all_of_team(call.actor, call.team)
    view = call["view_type"]
    if view != "ALL":
        rows = [row for row in rows if (row.deleted_ms is None) == (view == "ACTIVE_ONLY")]
    rows = filters.select(rows, clauses, _values)
    rows = filters.order(rows, call["order_by"], COLUMNS, ("creation_time DESC", "experiment_id DESC"))
    selected, token = paging.page(rows, call["page_token"], size)
    return paging.answer("experiments", [shapes.experiment(row) for row in selected], token)


def _values(row: Experiment) -> filters.Row:
    return {
        "attributes": {
            "name": row.name,
            "experiment_id": shapes.experiment_id(row),
            "creation_time": row.created_ms,
            "last_update_time": row.changed_ms,
        },
        "tags": {**row.tags, **({shapes.NOTE_TAG: row.description} if row.description else {})},
    }


def rename(call: Call) -> dict[str, Any]:
    name = limits.experiment_name(call["new_name"])
    row = find(call, call["experiment_id"])
    if row.deleted_ms is not None:
        raise MlflowError("INVALID_STATE", "Cannot rename a non-active experiment.")
    services.update_experiment(call.actor, row, name=name)
    return {}


def delete(call: Call) -> dict[str, Any]:
    row = find(call, call["experiment_id"])
    if row.deleted_ms is not None:
        raise missing(f"No Experiment with id={call['experiment_id']} exists")
    services.delete_experiment(call.actor, row)
    return {}


def restore(call: Call) -> dict[str, Any]:
    row = find(call, call["experiment_id"])
    if row.deleted_ms is None:
        raise missing(f"No Experiment with id={call['experiment_id']} exists")
    services.restore_experiment(call.actor, row)
    return {}


def set_tag(call: Call) -> dict[str, Any]:
    key, value = limits.stored_tag(call["key"], call["value"], limits.MAX_EXPERIMENT_TAG)
    row = find(call, call["experiment_id"])
    require_active(row)
    if key == shapes.NOTE_TAG:
        services.update_experiment(call.actor, row, description=value)
    else:
        services.set_experiment_tags(call.actor, row, {key: value})
    return {}


def delete_tag(call: Call) -> dict[str, Any]:
    key, row = call["key"], find(call, call["experiment_id"])
    require_active(row)
    if key == shapes.NOTE_TAG and row.description:
        services.update_experiment(call.actor, row, description="")
    elif key in row.tags:
        services.set_experiment_tags(call.actor, row, {key: None})
    else:
        raise missing(f"No tag with name: {key} in experiment with id {call['experiment_id']}")
    return {}
