"""What a run logs: metrics, parameters, tags, one by one and in batches.

A batch is the hot path of a training script: its metrics are checked in one loop over the decoded JSON, and kept in one
transaction with the parameters and tags.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from webapp.experiments import services
from webapp.experiments.models import Run
from webapp.metrics.values import Points
from webapp.mlflow import fields, limits, runs, shapes
from webapp.mlflow.endpoint import Call
from webapp.mlflow.errors import invalid, missing

HIGHEST_MS = 1 << 53


class Batch:
    """Metrics as columns by key; those of logged models also one by one."""

    def __init__(self) -> None:
        self.columns: dict[str, tuple[list[int], list[float], list[int]]] = {}
        self.of_models: list[dict[str, Any]] = []

    def add(self, metric: Mapping[str, Any], path: str) -> None:
        key, value, timestamp = metric.get("key"), metric.get("value"), metric.get("timestamp")
        step = metric.get("step", 0)
        columns = self.columns.get(key) if type(key) is str else None
        if columns is None:
            columns = self._series(key, path)
        if value is None or timestamp is None:
            raise limits.lacking(_at(path, "value" if value is None else "timestamp"))
        if type(value) is not float or type(timestamp) is not int or type(step) is not int:
            value, timestamp, step = _converted(value, timestamp, step, path)
        if not 0 <= timestamp < HIGHEST_MS:
            why = f"metric '{key}' (value={value}). Timestamp must be a nonnegative long (64-bit integer) "
            raise limits.refused(_at(path, "timestamp"), timestamp, why)
        if not -fields.INT64 <= step < fields.INT64:
            why = f"metric '{key}' (value={value}). Step must be a valid long (64-bit integer)."
            raise limits.refused(_at(path, "step"), step, why)
        columns[0].append(step)
        columns[1].append(value)
        columns[2].append(timestamp)
        if metric.get("model_id"):
            self._of_model(metric, value, timestamp, step, path)

    def _series(self, key: Any, path: str) -> tuple[list[int], list[float], list[int]]:
        if key is None or key == "":
            raise limits.lacking(_at(path, "key"))
        if not isinstance(key, str):
            raise limits.refused(_at(path, "key"), key, "It must be text")
        limits.metric_key(fields.storable(key), _at(path, "name"))
        return self.columns.setdefault(key, ([], [], []))

    def _of_model(
        self, metric: Mapping[str, Any], value: float, timestamp: int, step: int, path: str
    ) -> None:
        texts = {
            name: metric.get(name) or "" for name in ("key", "model_id", "dataset_name", "dataset_digest")
        }
        for name, text in texts.items():
            if not isinstance(text, str) or len(text) > 500:
                raise limits.refused(
                    _at(path, name), str(text)[:100], "It must be text of at most 500 characters"
                )
            fields.storable(text)
        self.of_models.append({**texts, "value": shapes.number(value), "timestamp": timestamp, "step": step})

    @property
    def points(self) -> list[Points]:
        return [Points(key, *columns) for key, columns in self.columns.items()]


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _converted(value: Any, timestamp: Any, step: Any, path: str) -> tuple[float, int, int]:
    """Numbers may come as text; NaN and infinities only so."""
    for name, given in (("value", value), ("timestamp", timestamp)):
        if given is None or given == "":
            raise limits.lacking(_at(path, name))
    try:
        value = fields.real_number(value)
    except fields.Wrong:
        why = f"(timestamp={timestamp}). Please specify value as a valid double (64-bit floating point)"
        raise limits.refused(_at(path, "value"), value, why) from None
    try:
        timestamp = fields.whole_number(timestamp)
    except fields.Wrong:
        why = "Timestamp must be a nonnegative long (64-bit integer) "
        raise limits.refused(_at(path, "timestamp"), timestamp, why) from None
    try:
        step = 0 if step is None else fields.whole_number(step)
    except fields.Wrong:
        raise limits.refused(_at(path, "step"), step, "Step must be a valid long (64-bit integer).") from None
    return value, timestamp, step


def log_metric(call: Call) -> dict[str, Any]:
    body = call.fields
    run_id = body.get("run_id") or body.get("run_uuid")
    if not run_id:
        raise limits.lacking("run_id")
    if not isinstance(run_id, str):
        raise limits.refused("run_id", str(run_id)[:100], "It must be text")
    batch = Batch()
    batch.add(body, "")
    _keep(call, runs.active(call, fields.storable(run_id)), batch, {}, {})
    return {}


def log_batch(call: Call) -> dict[str, Any]:
    body = call.fields
    run_id = body.get("run_id")
    if run_id is None or run_id == "":
        raise limits.lacking("run_id")
    if not isinstance(run_id, str):
        raise limits.refused("run_id", run_id, "It must be text")
    metrics, parameters, tags = (_list(body, name) for name in ("metrics", "params", "tags"))
    limits.run_id(run_id)
    limits.batch(metrics, parameters, tags)
    batch = Batch()
    for place, metric in enumerate(metrics):
        batch.add(metric, f"metrics[{place}]")
    kept = _parameters(parameters)
    named = dict(limits.run_tag(*_pair(tag, f"tags[{n}]"), f"tags[{n}]") for n, tag in enumerate(tags))
    row = runs.active(call, run_id)
    _keep(call, row, batch, kept, named)
    return {}


def _list(body: Mapping[str, Any], name: str) -> Sequence[Any]:
    given = body.get(name)
    if given is None:
        return []
    if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
        raise limits.refused(name, str(given)[:200], " Hint: it must be a list of objects.")
    return given


def _pair(given: Mapping[str, Any], path: str) -> tuple[str | None, str]:
    key, value = given.get("key"), given.get("value")
    if key is None or key == "":
        raise limits.lacking(f"{path}.key")
    for name, text in (("key", key), ("value", value)):
        if text is not None and not isinstance(text, str):
            raise limits.refused(f"{path}.{name}", text, "It must be text")
    return fields.storable(key), fields.storable(value or "")


def _parameters(given: Sequence[Any]) -> dict[str, str]:
    pairs = [
        limits.parameter(*_pair(item, f"params[{place}]"), f"params[{place}].key")
        for place, item in enumerate(given)
    ]
    kept = dict(pairs)
    if len(kept) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        raise invalid(
            f"Duplicate parameter keys have been submitted: {twice}. Please ensure the request contains only one "
            "param value per param key."
        )
    return kept


@transaction.atomic
def _keep(call: Call, row: Run, batch: Batch, parameters: Mapping[str, str], tags: Mapping[str, str]) -> None:
    if parameters:
        log_once(call, row, parameters)
    if batch.columns:
        services.log_points(call.actor, row, batch.points)
    if batch.of_models:
        services.log_model_metrics(call.actor, row, batch.of_models)
    if tags:
        keep_tags(call, row, tags)


def log_once(call: Call, row: Run, parameters: Mapping[str, str], *, single: bool = False) -> None:
    """Parameters never change: the same value again changes nothing, another one is refused."""
    before = services.log_new_parameters(call.actor, row, parameters)
    changed = [
        {"key": key, "old_value": shapes.parameter(before[key]), "new_value": value}
        for key, value in parameters.items()
        if key in before and shapes.parameter(before[key]) != value
    ]
    if changed and single:
        key, old, new = changed[0].values()
        raise invalid(
            f"Changing param values is not allowed. Param with key='{key}' was already logged with value='{old}' "
            f"for run ID='{row.id}'. Attempted logging new value '{new}'."
        )
    if changed:
        raise invalid(
            f"Changing param values is not allowed. Params were already logged='{changed}' for run ID='{row.id}'."
        )


@transaction.atomic
def log_parameter(call: Call) -> dict[str, Any]:
    key, value = limits.parameter(call["key"], call["value"])
    log_once(call, runs.active(call, runs.run_id_of(call)), {key: value}, single=True)
    return {}


def set_tag(call: Call) -> dict[str, Any]:
    key, value = limits.run_tag(call["key"], call["value"])
    keep_tags(call, runs.active(call, runs.run_id_of(call)), {key: value})
    return {}


@transaction.atomic
def keep_tags(call: Call, row: Run, tags: Mapping[str, str]) -> None:
    """Tags that MLflow gives a meaning change the field of the run too."""
    changes: dict[str, Any] = {}
    if name := tags.get(shapes.NAME_TAG):
        changes["name"] = name[: limits.MAX_KEY]
    if shapes.NOTE_TAG in tags:
        changes["description"] = tags[shapes.NOTE_TAG]
    if changes:
        services.update_run(call.actor, row, **changes)
    services.set_tags(call.actor, row, tags)


@transaction.atomic
def delete_tag(call: Call) -> dict[str, Any]:
    row, key = runs.active(call, call["run_id"]), call["key"]
    if key not in shapes.run_tags(row):
        raise missing(f"No tag with name: {key} in run with id {row.id}")
    if key == shapes.NOTE_TAG:
        services.update_run(call.actor, row, description="")
    services.delete_tags(call.actor, row, [key])
    return {}


def log_model(call: Call) -> dict[str, Any]:
    """The record of a model as clients before MLflow 3 send it: kept as a tag."""
    row = runs.active(call, call["run_id"])
    try:
        model = json.loads(call["model_json"])
    except (ValueError, RecursionError):
        model = None
    if not isinstance(model, dict):
        raise invalid(f"Malformed model info. \n {call['model_json'][:1000]} \n is not a valid JSON.")
    if lacking := {"artifact_path", "flavors", "utc_time_created", "run_id"} - model.keys():
        raise invalid(f"Model json is missing mandatory fields: {lacking}")
    try:
        before = json.loads(row.tags.get("mlflow.log-model.history", "[]"))
    except (ValueError, RecursionError):
        before = []
    history = json.dumps([*(before if isinstance(before, list) else []), model])
    limits.length("mlflow.log-model.history", history, limits.MAX_TAG)
    services.set_tags(call.actor, row, {"mlflow.log-model.history": history})
    return {}
