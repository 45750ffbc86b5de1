"""Drives a tracking server with the real client, and prints what it answers as one JSON document a line.

It runs in the environment of the peer, against a real MLflow server and against ours; the test compares the lines.
"""

import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import mlflow
from mlflow.entities import (
    Dataset,
    DatasetInput,
    InputTag,
    LoggedModelInput,
    LoggedModelOutput,
    Metric,
    Param,
    RunTag,
    ViewType,
)
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

client = MlflowClient()
KNOWN: dict[str, str] = {}  # ids and other values that differ from server to server → what the document says


STARTED_MS = int(time.time() * 1000) - 60_000
EXPERIMENTS: dict[str, str] = {}


def experiment_of(value: str, name: str) -> str:
    EXPERIMENTS[value] = f"<{name}>"
    return value


def known(value: str, name: str) -> str:
    KNOWN[value] = f"<{name}>"
    return value


def plain(value: Any) -> Any:
    """An entity as plain JSON."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, str | int | float | bool | None):
        return value
    if hasattr(value, "__iter__") and not hasattr(value, "to_proto"):
        return {key: plain(inner) for key, inner in value}
    names = [name for name in dir(type(value)) if isinstance(getattr(type(value), name), property)]
    return {name: plain(getattr(value, name)) for name in names}


def named(value: Any, key: str = "") -> Any:
    """The same with placeholders for what differs from server to server."""
    if isinstance(value, dict):
        return {name: named(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [named(inner) for inner in value]
    if isinstance(value, int) and value > STARTED_MS:
        return "<now>"
    if isinstance(value, float) and value != value:
        return "<nan>"
    if not isinstance(value, str):
        return value
    if key == "experiment_id":
        return EXPERIMENTS.get(value, value)
    for number, placeholder in EXPERIMENTS.items():
        value = re.sub(rf"(artifacts:/|id=|id |experiment ){number}(?!\w)", rf"\g<1>{placeholder}", value)
    for secret, placeholder in KNOWN.items():
        value = value.replace(secret, placeholder)
    return value


def show(name: str, value: Any) -> None:
    print(json.dumps([name, named(plain(value))], sort_keys=True), flush=True)


def refusal(name: str, call: Any, /, *args: Any, **named: Any) -> None:
    try:
        show(name, call(*args, **named))
    except MlflowException as error:
        message = error.message.split("\n")[0].split(" Error: ")[0]
        show(
            name, {"code": error.error_code, "status": error.get_http_status_code(), "message": message[:400]}
        )


def experiments() -> str:
    show("default by id", client.get_experiment("0").name)
    show("default by name", client.get_experiment_by_name("Default").experiment_id)
    first = experiment_of(client.create_experiment("wine", tags={"team": "cellar"}), "wine")
    other = experiment_of(client.create_experiment("beer"), "beer")
    refusal("taken name", client.create_experiment, "wine")
    refusal("no name", client.create_experiment, "")
    show("experiment", client.get_experiment(first))
    show("by name", client.get_experiment_by_name("wine"))
    show("unknown name", client.get_experiment_by_name("nothing"))
    refusal("unknown id", client.get_experiment, "987654321")
    refusal("no number", client.get_experiment, "wine")
    client.set_experiment_tag(first, "mlflow.note.content", "# Red")
    client.set_experiment_tag(first, "year", "2026")
    client.delete_experiment_tag(first, "team")
    refusal("unknown experiment tag", client.delete_experiment_tag, first, "team")
    show("tags", client.get_experiment(first).tags)
    client.rename_experiment(other, "ale")
    show("renamed", client.get_experiment(other).name)
    client.delete_experiment(other)
    show("deleted", client.get_experiment(other).lifecycle_stage)
    refusal("rename deleted", lambda: client.rename_experiment(other, "ale 2"))
    refusal("delete twice", client.delete_experiment, other)
    refusal("tag deleted", client.set_experiment_tag, other, "a", "b")
    names = [experiment.name for experiment in client.search_experiments()]
    show("active", names)
    show("all", [e.name for e in client.search_experiments(view_type=ViewType.ALL, order_by=["name ASC"])])
    show("deleted only", [e.name for e in client.search_experiments(view_type=ViewType.DELETED_ONLY)])
    show("by filter", [e.name for e in client.search_experiments(filter_string="name LIKE 'w%'")])
    show("by tag", [e.name for e in client.search_experiments(filter_string="tags.year = '2026'")])
    refusal("bad filter", client.search_experiments, filter_string="color = 'red'")
    refusal("bad order", client.search_experiments, order_by=["color"])
    page = client.search_experiments(view_type=ViewType.ALL, max_results=1, order_by=["name"])
    show("first page", [[e.name for e in page], bool(page.token)])
    page = client.search_experiments(
        view_type=ViewType.ALL, max_results=5, order_by=["name"], page_token=page.token
    )
    show("second page", [[e.name for e in page], bool(page.token)])
    client.restore_experiment(other)
    show("restored", client.get_experiment(other).lifecycle_stage)
    refusal("restore twice", client.restore_experiment, other)
    return first


def runs(experiment: str) -> str:
    tags = {"mlflow.user": "ada", "mlflow.source.name": "train.py", "stage": "dev"}
    run = client.create_run(experiment, start_time=1_700_000_000_000, tags=tags, run_name="first")
    run_id = known(run.info.run_id, "run")
    show("new run", run)
    client.log_param(run_id, "lr", 0.1)
    client.log_param(run_id, "lr", 0.1)
    refusal("changed param", client.log_param, run_id, "lr", 0.2)
    client.log_metric(run_id, "loss", 2.5, timestamp=1_700_000_000_100, step=1)
    client.log_metric(run_id, "loss", 1.5, timestamp=1_700_000_000_200, step=2)
    client.log_metric(run_id, "loss", 1.5, timestamp=1_700_000_000_200, step=2)
    client.log_metric(run_id, "late", 1.0, timestamp=1_700_000_000_200, step=5)
    client.log_metric(run_id, "late", 2.0, timestamp=1_700_000_000_300, step=4)
    client.log_metric(run_id, "nan", float("nan"), timestamp=1_700_000_000_200, step=0)
    metrics = [Metric("val/acc", n / 10, 1_700_000_001_000 + n, n) for n in range(10)]
    params = [Param("depth", "3"), Param("name with spaces", "x" * 6_500)]
    client.log_batch(run_id, metrics, params, [RunTag("batch", "yes"), RunTag("long", "y" * 9_000)])
    refusal("changed params", client.log_batch, run_id, params=[Param("depth", "4"), Param("new", "1")])
    refusal("bad metric", client.log_metric, run_id, "bad#key", 1.0)
    refusal("bad path", client.log_metric, run_id, "../x", 1.0)
    refusal("long key", client.log_metric, run_id, "k" * 251, 1.0)
    refusal("long param key", client.log_param, run_id, "k" * 251, 1.0)
    refusal("negative time", client.log_metric, run_id, "loss", 1.0, timestamp=-1)
    client.set_tag(run_id, "mlflow.note.content", "a note")
    client.set_tag(run_id, "gone", "soon")
    client.delete_tag(run_id, "gone")
    refusal("unknown tag", client.delete_tag, run_id, "gone")
    refusal("tag key", client.set_tag, run_id, "a#b", "c")
    show("logged run", client.get_run(run_id))
    refusal("unknown run", client.get_run, "f" * 32)
    refusal("unknown run batch", client.log_batch, "f" * 32, metrics=metrics)
    show("history", client.get_metric_history(run_id, "loss"))
    show("late history", client.get_metric_history(run_id, "late"))
    show("no history", client.get_metric_history(run_id, "nothing"))
    show("history of an unknown run", client.get_metric_history("f" * 32, "loss"))
    below = {"mlflow.parentRunId": run_id}
    child = client.create_run(experiment, start_time=1_700_000_000_500, run_name="child", tags=below)
    known(child.info.run_id, "child")
    show("child", child)
    client.update_run(child.info.run_id, status="FAILED", name="renamed child")
    show("updated", client.get_run(child.info.run_id).info.status)
    client.set_terminated(run_id, "FINISHED", end_time=1_700_000_002_000)
    show("finished", client.get_run(run_id).info)
    inputs(run_id)
    search(experiment)
    client.delete_run(child.info.run_id)
    show("deleted run", client.get_run(child.info.run_id).info.lifecycle_stage)
    refusal("log to deleted", client.log_metric, child.info.run_id, "loss", 1.0)
    refusal("update deleted", client.update_run, child.info.run_id, status="RUNNING")
    show("active runs", [r.info.run_name for r in client.search_runs([experiment])])
    deleted = client.search_runs([experiment], run_view_type=ViewType.DELETED_ONLY)
    show("deleted runs", [r.info.run_name for r in deleted])
    client.restore_run(child.info.run_id)
    show("restored run", client.get_run(child.info.run_id).info.lifecycle_stage)
    return run_id


def inputs(run_id: str) -> None:
    dataset = Dataset("wine", "abc123", "local", "{}", schema='{"a": 1}')
    client.log_inputs(run_id, [DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])])
    client.log_inputs(run_id, [DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])])
    for key, value in (("k" * 256, "v"), ("k", "v" * 501)):
        refusal("long input tag", client.log_inputs, run_id, [DatasetInput(dataset, [InputTag(key, value)])])
    client.log_inputs(run_id, models=[LoggedModelInput("m-1")])
    client.log_outputs(run_id, [LoggedModelOutput("m-2", 3)])
    show("inputs", client.get_run(run_id).inputs)
    show("outputs", client.get_run(run_id).outputs)


def search(experiment: str) -> None:
    for number in range(5):
        run = client.create_run(experiment, start_time=1_700_000_010_000 + number, run_name=f"s{number}")
        known(run.info.run_id, f"s{number}")
        client.log_batch(
            run.info.run_id,
            [Metric("acc", number / 10, 1_700_000_010_000, 0), Metric("train/loss", 1.0 - number / 10, 1, 0)],
            [Param("seed", str(number)), Param("opt", "adam" if number % 2 else "sgd")],
            [RunTag("group", "ab"[number % 2]), RunTag("dotted.tag", str(number))],
        )
        if number > 2:
            client.set_terminated(run.info.run_id, "KILLED")
    for text in (
        "", "metrics.acc > 0.15", "metrics.`train/loss` < 0.75", "params.opt = 'adam'", "params.seed != '2'",
        'tags.group = "a"', "tags.`dotted.tag` = '2'", "status = 'KILLED'", "attributes.run_name LIKE 's%'",
        "params.opt ILIKE 'AD%' and metrics.acc <= 0.2", "attributes.start_time >= 1700000010003",
        "dataset.name = 'wine'", "tags.mlflow.parentRunId = 'none'", "tags.mlflow.runName = 's3'",
        "tags.`mlflow.runName` LIKE 's%'", "`run name` = 's1'", "attributes.user_id = 'nobody'",
    ):  # fmt: skip
        show(f"search {text}", [r.info.run_name for r in client.search_runs([experiment], text)])
    for order in (
        "metrics.acc DESC",
        "params.seed ASC",
        "attributes.start_time",
        "tags.group",
        "start_time desc",
    ):
        found = client.search_runs([experiment], "params.seed != 'x'", order_by=[order])
        show(f"order {order}", [r.info.run_name for r in found])
    token, pages = None, []
    while True:
        page = client.search_runs(
            [experiment], order_by=["attributes.start_time"], max_results=3, page_token=token
        )
        pages.append([run.info.run_name for run in page])
        token = page.token
        if not token:
            break
    show("pages", pages)
    for text in ("metrics.acc >", "colour = 'red'", "metrics.acc = 'x'", "params.seed = 3 and", "((("):
        try:
            client.search_runs([experiment], text)
            show(f"bad {text}", "accepted")
        except MlflowException as error:
            show(f"bad {text}", [error.error_code, error.get_http_status_code()])
    refusal("too many", client.search_runs, [experiment], "", max_results=50_001)
    show("unknown experiment", len(client.search_runs(["987654321"])))


def artifacts(run_id: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "notes.txt").write_text("notes")
        Path(folder, "sub").mkdir()
        Path(folder, "sub", "data.json").write_text("{}")
        client.log_artifact(run_id, str(Path(folder, "notes.txt")))
        client.log_artifacts(run_id, folder, artifact_path="all")
        client.log_text(run_id, "again", "notes.txt")
        client.log_dict(run_id, {"a": 1}, "all/dict.yaml")
        for path in (None, "all", "all/sub", "notes.txt", "nowhere"):
            show(
                f"list {path}", [[f.path, f.is_dir, f.file_size] for f in client.list_artifacts(run_id, path)]
            )
        local = client.download_artifacts(run_id, "all", str(Path(folder, "sub")))
        show("downloaded", sorted(str(p.relative_to(local)) for p in Path(local).rglob("*")))
        show("text", Path(client.download_artifacts(run_id, "notes.txt")).read_text())
    refusal("missing artifact", client.download_artifacts, run_id, "nothing.txt")
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    repository = get_artifact_repository(client.get_run(run_id).info.artifact_uri)
    repository.delete_artifacts("all/sub")
    show("after deletion", [f.path for f in client.list_artifacts(run_id, "all")])


def logged_models(experiment: str, run_id: str) -> str:
    model = client.create_logged_model(
        experiment,
        name="forest",
        source_run_id=run_id,
        tags={"a": "b"},
        params={"trees": "10"},
        model_type="sklearn",
    )
    known(model.model_id, "model")
    show("logged model", model)
    client.set_logged_model_tags(model.model_id, {"c": "d"})
    client.delete_logged_model_tag(model.model_id, "a")
    refusal("unknown model tag", client.delete_logged_model_tag, model.model_id, "a")
    client.log_model_params(model.model_id, {"leaf": "2"})
    measured = {"model_id": model.model_id, "dataset_name": "wine", "dataset_digest": "abc123"}
    client.log_metric(run_id, "auc", 0.9, timestamp=1_700_000_000_000, step=1, **measured)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "MLmodel").write_text("flavors: {}\n")
        client.log_model_artifacts(model.model_id, folder)
    show("model files", [[f.path, f.file_size] for f in client.list_logged_model_artifacts(model.model_id)])
    show("finalized", client.finalize_logged_model(model.model_id, "READY"))
    for text in (
        "name = 'forest'",
        "params.trees = '10'",
        "tags.c = 'd'",
        "metrics.auc > 0.5",
        "metrics.auc > 0.95",
    ):
        show(f"models {text}", [m.name for m in client.search_logged_models([experiment], text)])
    refusal("bad model name", client.create_logged_model, experiment, "a/b")
    refusal("unknown model", client.get_logged_model, "m-unknown")
    return model.model_id


def registry(run_id: str, model_id: str) -> None:
    show("registered", client.create_registered_model("Wine Model", tags={"t": "1"}, description="red"))
    refusal("registered twice", client.create_registered_model, "Wine Model")
    refusal("slash", client.create_registered_model, "a/b")
    refusal("unknown registered", client.get_registered_model, "nothing")
    first = client.create_model_version(
        "Wine Model", f"runs:/{run_id}/all", run_id, tags={"v": "1"}, description="d"
    )
    show("version", first)
    second = client.create_model_version("Wine Model", f"models:/{model_id}", model_id=model_id)
    show("version of a logged model", second)
    refusal("foreign source", client.create_model_version, "Wine Model", f"runs:/{'f' * 32}/all", run_id)
    refusal("local source", client.create_model_version, "Wine Model", "/etc/passwd")
    show("uri", client.get_model_version_download_uri("Wine Model", "1"))
    show("uri of logged", client.get_model_version_download_uri("Wine Model", "2"))
    client.set_registered_model_alias("Wine Model", "champion", "1")
    client.set_registered_model_alias("Wine Model", "latest-good", "2")
    show("by alias", client.get_model_version_by_alias("Wine Model", "champion"))
    refusal("unknown alias", client.get_model_version_by_alias, "Wine Model", "nobody")
    refusal("reserved alias", client.set_registered_model_alias, "Wine Model", "v1", "1")
    refusal("alias of nothing", client.set_registered_model_alias, "Wine Model", "x", "9")
    client.set_registered_model_tag("Wine Model", "u", "2")
    client.delete_registered_model_tag("Wine Model", "t")
    client.set_model_version_tag("Wine Model", "1", "w", "3")
    client.delete_model_version_tag("Wine Model", "1", "v")
    client.update_model_version("Wine Model", "1", "better")
    show("model", client.get_registered_model("Wine Model"))
    show("one version", client.get_model_version("Wine Model", "1"))
    refusal("no version", client.get_model_version, "Wine Model", "9")
    refusal("no number of a version", client.get_model_version, "Wine Model", "x")
    show("stage", client.transition_model_version_stage("Wine Model", "1", "Production").current_stage)
    client.transition_model_version_stage("Wine Model", "2", "production", archive_existing_versions=True)
    refusal("bad stage", client.transition_model_version_stage, "Wine Model", "1", "Nowhere")
    show("latest", [[v.version, v.current_stage] for v in client.get_latest_versions("Wine Model")])
    show("latest of a stage", [v.version for v in client.get_latest_versions("Wine Model", ["Production"])])
    client.create_registered_model("beer")
    show("search models", [m.name for m in client.search_registered_models()])
    for text in ("name = 'beer'", "name ILIKE 'wine%'", "tags.u = '2'"):
        show(f"search models {text}", [m.name for m in client.search_registered_models(text)])
    for text in ("name = 'Wine Model'", f"run_id = '{run_id}'", "tags.w = '3'"):
        found = client.search_model_versions(text, order_by=["version_number ASC"])
        show(f"search versions {text.replace(run_id, 'RUN')}", [v.version for v in found])
    refusal("bad model filter", client.search_registered_models, "color = 'red'")
    client.rename_registered_model("beer", "ale")
    refusal("rename to taken", client.rename_registered_model, "ale", "Wine Model")
    client.delete_registered_model_alias("Wine Model", "champion")
    client.delete_model_version("Wine Model", "1")
    refusal("deleted version", client.get_model_version, "Wine Model", "1")
    third = client.create_model_version("Wine Model", f"runs:/{run_id}/all", run_id)
    show("number after deletion", third.version)
    client.delete_registered_model("ale")
    refusal("deleted model", client.get_registered_model, "ale")


def main() -> None:
    host = os.environ["MLFLOW_TRACKING_URI"]
    known(host, "host")
    experiment = experiments()
    run_id = runs(experiment)
    artifacts(run_id)
    model_id = logged_models(experiment, run_id)
    registry(run_id, model_id)
    mlflow.set_experiment("wine")
    with mlflow.start_run(run_name="fluent") as active:
        known(active.info.run_id, "fluent")
        mlflow.log_metrics({"a": 1.0, "b": 2.0}, step=1)
        mlflow.log_params({"x": 1})
        with mlflow.start_run(nested=True, run_name="nested") as nested:
            known(nested.info.run_id, "nested")
            show("nested parent", nested.data.tags["mlflow.parentRunId"])
    show("fluent", mlflow.get_run(active.info.run_id).info.status)


if __name__ == "__main__":
    sys.exit(main())
