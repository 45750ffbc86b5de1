"""Runs and experiments of an MLflow server: parameters, tags, metrics with their whole history, artifacts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from trainmaster.client import Client
from trainmaster.importers.mlflow_server import MlflowServer
from trainmaster.importers.runs import MOST_KEY, MOST_TAG, Content, Point, RunFile, SourceRun, parameter

_STATES = {"FINISHED": "succeeded", "FAILED": "failed", "KILLED": "cancelled"}
_NOTE, _NAME, _PARENT = "mlflow.note.content", "mlflow.runName", "mlflow.parentRunId"


def runs_of(server: MlflowServer, only: str, experiment: str) -> Iterator[SourceRun]:
    """Of all experiments, or of the one that is called `only`; kept under its name, or as `experiment`."""
    for found in server.experiments():
        if only in ("", found["name"]):
            for run in server.runs(str(found["experiment_id"])):
                yield _run(server, run, experiment or str(found["name"]))


def describe_experiments(client: Client, team: str, server: MlflowServer, only: str) -> None:
    """Notes and tags of the experiments under their own names. What somebody wrote here stays."""
    for found in server.experiments():
        tags = {str(tag["key"]): str(tag.get("value", "")) for tag in found.get("tags", ())}
        if not tags or only not in ("", found["name"]):
            continue
        asked = {"team": team, "search": found["name"], "view": "all"}
        for ours in client.call("GET", "experiments", params=asked)["results"]:
            if ours["name"] == found["name"] and not ours["deleted_ms"]:
                note = ours["description"] or tags.pop(_NOTE, "")
                kept = {key[:MOST_KEY]: value[:MOST_TAG] for key, value in tags.items() if key != _NOTE}
                change = {"description": note, "tags": kept | ours["tags"]}
                client.call("PATCH", f"experiments/{ours['id']}", json=change)


def _run(server: MlflowServer, run: Mapping[str, Any], experiment: str) -> SourceRun:
    info, data = run["info"], run.get("data", {})
    run_id = str(info["run_id"])
    tags = {str(tag["key"]): str(tag.get("value", "")) for tag in data.get("tags", ())}
    datasets = [entry["dataset"] for entry in run.get("inputs", {}).get("dataset_inputs", ())]
    return SourceRun(
        source="mlflow",
        identity=run_id,
        experiment=experiment,
        name=str(info.get("run_name") or tags.get(_NAME) or run_id),
        content=partial(_content, server, run_id, [str(metric["key"]) for metric in data.get("metrics", ())]),
        parameters={
            str(held["key"])[:MOST_KEY]: parameter(held.get("value")) for held in data.get("params", ())
        },
        tags={
            key[:MOST_KEY]: value[:MOST_TAG]
            for key, value in tags.items()
            if key not in (_NOTE, _NAME, _PARENT)
        },
        lineage={"dataset": ", ".join(str(dataset.get("name", "")) for dataset in datasets)}
        if datasets
        else {},
        description=tags.get(_NOTE, ""),
        parent=tags.get(_PARENT, ""),
        state=_STATES.get(str(info.get("status")), "running"),
        started_ms=_milliseconds(info.get("start_time")),
        ended_ms=_milliseconds(info.get("end_time")),
    )


def _content(server: MlflowServer, run_id: str, keys: list[str]) -> Iterator[Content]:
    for key in keys:
        for point in server.history(run_id, key):
            yield Point(
                key[:MOST_KEY],
                int(point.get("step") or 0),
                float(point["value"]),
                int(point.get("timestamp") or 0),
            )
    for path in server.files(run_id):
        yield RunFile(path, partial(server.opened, run_id, path))


def _milliseconds(value: Any) -> int | None:
    return max(0, int(value)) if value else None  # MLflow takes times from before 1970
