"""Runs: create, get, update, delete, restore, search; the datasets and models that they read and made."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from platform_core.errors import TrainmasterError
from webapp.experiments import queries, services
from webapp.experiments.models import Run, RunDataset, RunModel
from webapp.metrics import queries as metrics
from webapp.mlflow import experiments, limits, names, paging, shapes
from webapp.mlflow.endpoint import Call
from webapp.mlflow.errors import MlflowError, invalid, missing

MOST_LISTED = 50_000
MOST_EXPERIMENTS, MOST_SUMMARIES = 20, 1_000
VIEWS = {"ACTIVE_ONLY": "active", "DELETED_ONLY": "deleted", "ALL": "all"}
DATASET_LIMITS = {
    "name": 500, "digest": 36, "source_type": 65_535, "source": 65_535, "schema": 1_048_575, "profile": 16_777_215,
}  # fmt: skip


def find(call: Call, run_id: str) -> Run:
    """A run, deleted or not. One of a foreign team does not exist."""
    try:
        row = queries.find_run(call.actor, run_id, deleted=True)
    except TrainmasterError as error:
        if error.code != "not_found":
            raise
        raise missing(f"Run with id={run_id} not found") from None
    if not call.sees(row.experiment.team_id):
        raise missing(f"Run with id={run_id} not found")
    return row


def active(call: Call, run_id: str) -> Run:
    row = find(call, run_id)
    require_active(row)
    return row


def require_active(row: Run) -> None:
    if row.deleted_ms is not None:
        raise invalid(f"The run {row.id} must be in the 'active' state. Current state is deleted.")


def create(call: Call) -> dict[str, Any]:
    experiment = experiments.find(call, call["experiment_id"])
    experiments.require_active(experiment)
    tags = dict(limits.run_tag(tag["key"], tag["value"]) for tag in call["tags"])
    name, tag = call["run_name"], tags.get(shapes.NAME_TAG)
    if name and tag and name != tag:
        raise invalid(
            "Both 'run_name' argument and 'mlflow.runName' tag are specified, but with different values "
            f"(run_name='{name}', mlflow.runName='{tag}')."
        )
    row = services.create_run(
        call.actor,
        experiment,
        name=(name or tag or names.random_name())[: limits.MAX_KEY],
        tags=tags,
        description=tags.get(shapes.NOTE_TAG, ""),
        parent=_parent(call, tags.get(shapes.PARENT_TAG, "")),
        source="mlflow",
        started_ms=call["start_time"],
        user=(call["user_id"] or "")[: limits.MAX_KEY],
    )
    answer = shapes.run(row, {})
    del answer["outputs"]  # of a run that was just made MLflow names the inputs alone
    return {"run": answer}


def _parent(call: Call, run_id: str) -> Run | None:
    """MLflow takes any text for the parent; a run that does not exist for the caller is none."""
    if not run_id:
        return None
    try:
        return find(call, run_id)
    except MlflowError:
        return None


def get(call: Call) -> dict[str, Any]:
    return {"run": complete([find(call, run_id_of(call))])[0]}


def run_id_of(call: Call) -> str:
    """Older clients call it run_uuid."""
    run_id = call["run_id"] or call["run_uuid"]
    if not run_id:
        raise limits.lacking("run_id")
    return str(run_id)


def complete(rows: Iterable[Run]) -> list[dict[str, Any]]:
    """Runs with the newest value of each metric, their datasets and models; four statements for any number."""
    rows = list(rows)
    ids = [row.id for row in rows]
    summaries = metrics.summaries(ids)
    datasets: dict[str, list[RunDataset]] = defaultdict(list)
    for dataset in RunDataset.objects.filter(run__in=ids).order_by("id"):
        datasets[dataset.run_id].append(dataset)
    models: dict[str, list[RunModel]] = defaultdict(list)
    for model in RunModel.objects.filter(run__in=ids).order_by("id"):
        models[model.run_id].append(model)
    return [shapes.run(row, summaries[row.id], datasets[row.id], models[row.id]) for row in rows]


def update(call: Call) -> dict[str, Any]:
    row = active(call, run_id_of(call))
    changes: dict[str, Any] = {}
    if call["run_name"]:
        changes["name"] = call["run_name"][: limits.MAX_KEY]
    if row.job_id is None:  # the state of a job's run follows its job
        if call["status"]:
            changes["state"] = shapes.STATES[call["status"]]
        if call["end_time"] is not None:
            changes["ended_ms"] = call["end_time"]
    if changes:
        row = services.update_run(call.actor, row, **changes)
    if "name" in changes:
        row = services.set_tags(call.actor, row, {shapes.NAME_TAG: row.name})
    return {"run_info": shapes.run_info(row)}


def delete(call: Call) -> dict[str, Any]:
    services.delete_runs(call.actor, [find(call, call["run_id"]).id])
    return {}


def restore(call: Call) -> dict[str, Any]:
    services.restore_runs(call.actor, [find(call, call["run_id"]).id])
    return {}


def search(call: Call) -> dict[str, Any]:
    size = call["max_results"]
    if not 1 <= size <= MOST_LISTED:
        raise limits.refused("max_results", size, f"It must be at least 1 and at most {MOST_LISTED}")
    chosen = [_experiment(call, reference) for reference in call["experiment_ids"]]
    rows = [row for row in chosen if row is not None]
    if not rows:
        return {}
    found: list[Run] = []
    cursor: str | None = call["page_token"] or ""
    while cursor is not None and len(found) < size:  # a page of ours is shorter than MLflow's may be
        page = queries.search_runs(
            call.actor,
            experiments=[row.pk for row in rows],
            filter=call["filter"] or "",
            order_by=call["order_by"] or ("start_time DESC", "run_id"),
            limit=size - len(found),
            cursor=cursor,
            view=VIEWS[call["run_view_type"]],
        )
        found, cursor = found + page.runs, page.next_cursor
    return paging.answer("runs", complete(found), cursor)


def _experiment(call: Call, reference: str) -> Any:
    """Experiments that are not there have no runs."""
    try:
        return experiments.find(call, reference)
    except MlflowError as error:
        if error.code != "RESOURCE_DOES_NOT_EXIST":
            raise
    return None


def log_inputs(call: Call) -> dict[str, Any]:
    row = active(call, limits.run_id(call["run_id"]))
    datasets = []
    for given in call["datasets"]:
        dataset = given["dataset"]
        for field, limit in DATASET_LIMITS.items():
            limits.length(field, dataset[field], limit)
        for tag in given["tags"]:
            limits.length("key", tag["key"], limits.MAX_INPUT_TAG_KEY)
            limits.length("value", tag["value"], limits.MAX_INPUT_TAG)
        tags = {tag["key"] or "": tag["value"] or "" for tag in given["tags"]}
        datasets.append({**{field: dataset[field] or "" for field in DATASET_LIMITS}, "tags": tags})
    models = [(model["model_id"], 0) for model in call["models"]]
    services.log_inputs(call.actor, row, datasets, models)
    return {}


def search_datasets(call: Call) -> dict[str, Any]:
    """The datasets that runs of the experiments read, each once with what it was for."""
    ids = call["experiment_ids"]
    if not ids:
        raise invalid("SearchDatasets request must specify at least one experiment_id.")
    if len(ids) > MOST_EXPERIMENTS:
        raise invalid(
            f"SearchDatasets request cannot specify more than {MOST_EXPERIMENTS} experiment_ids. Received {len(ids)} "
            "experiment_ids."
        )
    rows = [row for row in (_experiment(call, reference) for reference in ids) if row is not None]
    found = {
        (shapes.experiment_id(experiment), name, digest, context or "")
        for experiment in rows
        for name, digest, context in queries.datasets_read(experiment, MOST_SUMMARIES)
    }
    names = ("experiment_id", "name", "digest", "context")
    summaries = [
        {name: value for name, value in zip(names, summary, strict=True) if value}
        for summary in sorted(found)[:MOST_SUMMARIES]
    ]
    return {"dataset_summaries": summaries} if summaries else {}


def log_outputs(call: Call) -> dict[str, Any]:
    row = active(call, call["run_id"])
    services.log_outputs(
        call.actor, row, [(model["model_id"], model["step"] or 0) for model in call["models"]]
    )
    return {}
