"""Logged models of MLflow 3: create, finalize, get, search, delete, tags, parameters, files."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from platform_core.errors import TrainmasterError
from webapp.experiments import services
from webapp.experiments.models import LoggedModel
from webapp.mlflow import experiments, filters, names, paging, runs, shapes
from webapp.mlflow.endpoint import Call
from webapp.mlflow.errors import MlflowError, invalid, missing

NUMBERS = {
    "LOGGED_MODEL_STATUS_UNSPECIFIED": 0,
    "LOGGED_MODEL_PENDING": 1,
    "LOGGED_MODEL_READY": 2,
    "LOGGED_MODEL_UPLOAD_FAILED": 3,
}
STATES = {
    "LOGGED_MODEL_PENDING": "pending",
    "LOGGED_MODEL_READY": "ready",
    "LOGGED_MODEL_UPLOAD_FAILED": "failed",
}
STATUS = {state: status for status, state in STATES.items()}
FORBIDDEN = ("/", ":", ".", "%", '"', "'")
MOST_LISTED = 1_000
GRAMMAR = filters.Grammar(
    attributes=("name", "model_id", "model_type", "status", "source_run_id", "creation_timestamp",
                "creation_time", "last_updated_timestamp", "experiment_id"),
    numeric=("creation_timestamp", "creation_time", "last_updated_timestamp"),
    kinds=("attributes", "tags", "params", "metrics"),
)  # fmt: skip


def find(call: Call, model_id: str, *, deleted: bool = False) -> LoggedModel:
    try:
        row = services.find_logged_model(call.actor, model_id, deleted=deleted)
    except TrainmasterError as error:
        if error.code != "not_found":
            raise
        raise missing(f"Logged model with ID '{model_id}' not found.") from None
    if not call.sees(row.experiment.team_id):
        raise missing(f"Logged model with ID '{model_id}' not found.")
    return row


def shape(row: LoggedModel) -> dict[str, Any]:
    info: dict[str, Any] = {
        "experiment_id": shapes.experiment_id(row.experiment),
        "model_id": row.id,
        "name": row.name,
        "artifact_uri": artifact_uri(row),
        "creation_timestamp_ms": row.created_ms,
        "last_updated_timestamp_ms": row.changed_ms,
        "model_type": row.kind,
        "source_run_id": row.run_id or "",
        "status": STATUS[row.state],
    }
    if row.tags:
        info["tags"] = shapes.pairs(row.tags)
    data: dict[str, Any] = {}
    if row.parameters:
        data["params"] = shapes.pairs(row.parameters)
    if row.metrics:
        data["metrics"] = [
            {name: value for name, value in metric.items() if value != ""} for metric in row.metrics
        ]
    return {"info": info, "data": data}


def artifact_uri(row: LoggedModel) -> str:
    return f"{shapes.artifact_root(row.experiment)}/models/{row.id}/artifacts"


def create(call: Call) -> dict[str, Any]:
    name = call["name"] or None
    if name is not None and any(letter in name for letter in FORBIDDEN):
        raise invalid(
            f"Invalid model name ({name!r}) provided. Model name must be a non-empty string and cannot contain the "
            f"following characters: {FORBIDDEN}"
        )
    experiment = experiments.find(call, call["experiment_id"])
    experiments.require_active(experiment)
    row = services.create_logged_model(
        call.actor,
        experiment,
        name or names.random_name(),
        kind=call["model_type"] or "",
        run=runs.find(call, call["source_run_id"]) if call["source_run_id"] else None,
        parameters=_pairs(call["params"]),
        tags=_pairs(call["tags"]),
    )
    return {"model": shape(row)}


def _pairs(given: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    pairs = {}
    for pair in given:
        if not pair["key"] or len(pair["key"]) > 500:
            raise invalid("A key of a tag or parameter must have 1 to 500 characters.")
        pairs[pair["key"]] = pair["value"] or ""
    return pairs


def get(call: Call, model_id: str) -> dict[str, Any]:
    return {"model": shape(find(call, model_id, deleted=call["allow_deleted"]))}


def finalize(call: Call, model_id: str) -> dict[str, Any]:
    state = STATES.get(call["status"])
    if state is None:
        raise invalid(f"Invalid model status: {call['status']}. Expected one of {', '.join(STATES)}.")
    return {"model": shape(services.finalize_logged_model(call.actor, find(call, model_id), state))}


def delete(call: Call, model_id: str) -> dict[str, Any]:
    services.delete_logged_model(call.actor, find(call, model_id))
    return {}


def set_tags(call: Call, model_id: str) -> dict[str, Any]:
    services.set_logged_model_tags(call.actor, find(call, model_id), _pairs(call["tags"]))
    return {}


def delete_tag(call: Call, model_id: str, tag_key: str) -> dict[str, Any]:
    row = find(call, model_id)
    if tag_key not in row.tags:
        raise missing(f"No tag with key {tag_key!r} found for model with ID {model_id!r}.")
    services.set_logged_model_tags(call.actor, row, {tag_key: None})
    return {}


def log_parameters(call: Call, model_id: str) -> dict[str, Any]:
    services.add_logged_model_parameters(call.actor, find(call, model_id), _pairs(call["params"]))
    return {}


def search(call: Call) -> dict[str, Any]:
    size = call["max_results"] or 100
    if not 1 <= size <= MOST_LISTED:
        raise invalid(
            f"Invalid value {size} for parameter 'max_results' supplied. It must be 1 to {MOST_LISTED}."
        )
    datasets = call["datasets"]
    if not all(dataset["dataset_name"] for dataset in datasets):
        raise invalid("`dataset_name` in the `datasets` clause must be specified.")
    clauses = filters.parse(call["filter"], GRAMMAR)
    found = [row for row in (_experiment(call, reference) for reference in call["experiment_ids"]) if row]
    rows = [row for row in services.logged_models(call.actor, found) if _matches(row, clauses, datasets)]
    for key in reversed(call["order_by"]):
        rows = _ordered(rows, key)
    selected, token = paging.page(rows, call["page_token"], size)
    return paging.answer("models", [shape(row) for row in selected], token)


def _experiment(call: Call, reference: str) -> Any:
    try:
        return experiments.find(call, reference)
    except MlflowError as error:
        if error.code != "RESOURCE_DOES_NOT_EXIST":
            raise
    return None


def _matches(
    row: LoggedModel, clauses: Sequence[filters.Clause], datasets: Sequence[Mapping[str, Any]]
) -> bool:
    """A metric matches when one of its values does, on one of the datasets where they are given."""
    metrics = [metric for metric in row.metrics if not datasets or _is_on(metric, datasets)]
    if datasets and not metrics:
        return False
    values = {
        "attributes": {
            "name": row.name, "model_id": row.id, "model_type": row.kind, "status": row.state.upper(),
            "source_run_id": row.run_id or "", "creation_timestamp": row.created_ms, "creation_time": row.created_ms,
            "last_updated_timestamp": row.changed_ms, "experiment_id": shapes.experiment_id(row.experiment),
        },
        "tags": row.tags,
        "params": row.parameters,
        "metrics": {},
    }  # fmt: skip
    return all(
        any(
            clause.matches({"metrics": {clause.key: float(m["value"])}})
            for m in metrics
            if m["key"] == clause.key
        )
        if clause.kind == "metrics"
        else clause.matches(values)
        for clause in clauses
    )


def _is_on(metric: Mapping[str, Any], datasets: Sequence[Mapping[str, Any]]) -> bool:
    return any(
        metric["dataset_name"] == dataset["dataset_name"]
        and (not dataset["dataset_digest"] or metric["dataset_digest"] == dataset["dataset_digest"])
        for dataset in datasets
    )


def _ordered(rows: list[LoggedModel], key: Mapping[str, Any]) -> list[LoggedModel]:
    """Models without the value come last in both directions."""
    field = key["field_name"] or ""
    columns = {
        "name": lambda row: row.name,
        "model_id": lambda row: row.id,
        "model_type": lambda row: row.kind,
        "creation_time": lambda row: row.created_ms,
        "creation_timestamp": lambda row: row.created_ms,
        "creation_timestamp_ms": lambda row: row.created_ms,
        "last_updated_timestamp": lambda row: row.changed_ms,
        "last_updated_timestamp_ms": lambda row: row.changed_ms,
        "status": lambda row: row.state,
    }
    if match := re.fullmatch(r"metrics\.`?(.+?)`?", field):
        read = _metric_reader(match[1], key)
    elif field in columns:
        read = columns[field]
    else:
        raise invalid(f"Invalid order by field name: {field[:100]}")
    known = [row for row in rows if read(row) is not None]
    known.sort(key=read, reverse=not key["ascending"])
    return known + [row for row in rows if read(row) is None]


def _metric_reader(name: str, key: Mapping[str, Any]) -> Any:
    wanted = [{"dataset_name": key["dataset_name"], "dataset_digest": key["dataset_digest"]}]

    def read(row: LoggedModel) -> float | None:
        values = [
            m for m in row.metrics if m["key"] == name and (not key["dataset_name"] or _is_on(m, wanted))
        ]
        newest = max(values, key=lambda m: (m["timestamp"], m["step"]), default=None)
        return None if newest is None else float(newest["value"])

    return read
