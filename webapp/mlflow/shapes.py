"""Experiments, runs and metrics as MLflow writes them."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from webapp.experiments.models import Experiment, Run, RunDataset, RunModel
from webapp.experiments.services import DEFAULT_EXPERIMENT
from webapp.metrics.values import Summary

STATUS = {
    "pending": "SCHEDULED",
    "running": "RUNNING",
    "succeeded": "FINISHED",
    "failed": "FAILED",
    "cancelled": "KILLED",
}
STATES = {status: state for state, status in STATUS.items()}
STATUS_NUMBERS = {"RUNNING": 1, "SCHEDULED": 2, "FINISHED": 3, "FAILED": 4, "KILLED": 5}
NAME_TAG = "mlflow.runName"
NOTE_TAG = "mlflow.note.content"
PARENT_TAG = "mlflow.parentRunId"
USER_TAG = "mlflow.user"


def experiment_id(experiment: Experiment) -> str:
    """The team's Default is MLflow's experiment 0."""
    return "0" if experiment.name == DEFAULT_EXPERIMENT else str(experiment.pk)


def lifecycle(deleted_ms: int | None) -> str:
    return "active" if deleted_ms is None else "deleted"


def experiment(row: Experiment) -> dict[str, Any]:
    tags = {**row.tags, **({NOTE_TAG: row.description} if row.description else {})}
    return {
        "experiment_id": experiment_id(row),
        "name": row.name,
        "artifact_location": artifact_root(row),
        "lifecycle_stage": lifecycle(row.deleted_ms),
        "last_update_time": row.deleted_ms or row.changed_ms,
        "creation_time": row.created_ms,
        "workspace": row.team_id,
        **({"tags": pairs(tags)} if tags else {}),
    }


def pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def number(value: float) -> float | str:
    """As the JSON of protocol messages has it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def parameter(value: Any) -> str:
    """Parameters of other clients may be numbers."""
    return value if isinstance(value, str) else str(value)


def run_info(row: Run) -> dict[str, Any]:
    return {
        "run_id": row.id,
        "run_uuid": row.id,
        "run_name": row.name,
        "experiment_id": experiment_id(row.experiment),
        "user_id": str(row.lineage.get("user") or row.owner_name),
        "status": STATUS[row.state],
        "start_time": row.created_ms if row.started_ms is None else row.started_ms,
        **({"end_time": row.ended_ms} if row.ended_ms is not None else {}),
        "artifact_uri": artifact_uri(row),
        "lifecycle_stage": lifecycle(row.deleted_ms),
    }


def artifact_root(row: Experiment) -> str:
    return f"mlflow-artifacts:/{row.artifact_folder or experiment_id(row)}"


def artifact_uri(row: Run) -> str:
    return f"{artifact_root(row.experiment)}/{row.id}/artifacts"


def run_tags(row: Run) -> dict[str, str]:
    """The tags as they were sent; what our own pages changed meanwhile counts."""
    tags = {**row.tags, NAME_TAG: row.name}
    if row.description:
        tags[NOTE_TAG] = row.description
    if row.parent_id:
        tags[PARENT_TAG] = row.parent_id
    return tags


def run(
    row: Run,
    metrics: Mapping[str, Summary],
    datasets: Iterable[RunDataset] = (),
    models: Iterable[RunModel] = (),
) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if metrics:
        data["metrics"] = [
            {
                "key": key,
                "value": number(summary.last),
                "timestamp": summary.last_ms,
                "step": summary.last_step,
            }
            for key, summary in metrics.items()
        ]
    if row.parameters:
        data["params"] = [{"key": key, "value": parameter(value)} for key, value in row.parameters.items()]
    data["tags"] = pairs(run_tags(row))
    inputs: dict[str, Any] = {}
    if read := [dataset_input(dataset) for dataset in datasets]:
        inputs["dataset_inputs"] = read
    if used := [{"model_id": model.model_id} for model in models if model.role == "input"]:
        inputs["model_inputs"] = used
    outputs: dict[str, Any] = {}
    if made := [{"model_id": m.model_id, "step": m.step} for m in models if m.role == "output"]:
        outputs["model_outputs"] = made
    return {"info": run_info(row), "data": data, "inputs": inputs, "outputs": outputs}


def dataset_input(row: RunDataset) -> dict[str, Any]:
    dataset = {"name": row.name, "digest": row.digest, "source_type": row.source_type, "source": row.source}
    dataset |= {name: getattr(row, name) for name in ("schema", "profile") if getattr(row, name)}
    return {"dataset": dataset, **({"tags": pairs(row.tags)} if row.tags else {})}
