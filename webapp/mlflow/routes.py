"""Every endpoint: method, address below /api/2.0/mlflow, its message, and the function that answers."""

from webapp.mlflow import (
    artifacts,
    experiments,
    history,
    logged_models,
    logs,
    registry,
    runs,
    server,
    versions,
)
from webapp.mlflow.endpoint import Endpoint
from webapp.mlflow.fields import Field, choice, flag, message, objects, pairs, text, texts, whole
from webapp.mlflow.shapes import STATUS_NUMBERS

RUN = (text("run_id"), text("run_uuid"))
PAGE = (text("page_token"),)
EXPERIMENT_ID = text("experiment_id", required=True)
REQUIRED_RUN = text("run_id", required=True)
NAME = text("name", required=True)
KEY, VALUE = text("key", required=True), text("value")
VERSION = (NAME, text("version", required=True))
ALIAS = text("alias", required=True)
MODEL_ID = text("model_id", required=True)
DATASET = message("dataset", *(text(name) for name in runs.DATASET_LIMITS), required=True)
EXPERIMENT_SEARCH = (
    whole("max_results"),
    text("filter"),
    texts("order_by"),
    choice("view_type", experiments.VIEWS, default="ACTIVE_ONLY"),
    *PAGE,
)
RUN_SEARCH = (
    texts("experiment_ids"),
    text("filter"),
    choice("run_view_type", {"ACTIVE_ONLY": 1, "DELETED_ONLY": 2, "ALL": 3}, default="ACTIVE_ONLY"),
    whole("max_results", default=1000, most=runs.MOST_LISTED),
    texts("order_by"),
    *PAGE,
)
BULK_INTERVAL = (
    texts("run_ids"),
    text("metric_key", required=True),
    whole("start_step"),
    whole("end_step"),
    whole("max_results"),
)
LOGGED_MODEL_SEARCH = (
    texts("experiment_ids", required=True),
    text("filter"),
    objects("datasets", text("dataset_name"), text("dataset_digest")),
    whole("max_results", default=50),
    objects("order_by", text("field_name"), Field("ascending", bool, default=True), text("dataset_name"),
            text("dataset_digest")),
    *PAGE,
)  # fmt: skip


def _search(default: int) -> tuple[Field, ...]:
    return (text("filter"), whole("max_results", default=default), texts("order_by"), *PAGE)


EXPERIMENTS = [
    Endpoint(
        "POST", "experiments/create", experiments.create, (NAME, text("artifact_location"), pairs("tags"))
    ),
    Endpoint("GET", "experiments/get", experiments.get, (EXPERIMENT_ID,)),
    Endpoint(
        "GET", "experiments/get-by-name", experiments.get_by_name, (text("experiment_name", required=True),)
    ),
    Endpoint("POST", "experiments/search", experiments.search, EXPERIMENT_SEARCH),
    Endpoint("GET", "experiments/search", experiments.search, EXPERIMENT_SEARCH),
    Endpoint(
        "POST", "experiments/update", experiments.rename, (EXPERIMENT_ID, text("new_name", required=True))
    ),
    Endpoint("POST", "experiments/delete", experiments.delete, (EXPERIMENT_ID,)),
    Endpoint("POST", "experiments/restore", experiments.restore, (EXPERIMENT_ID,)),
    Endpoint("POST", "experiments/set-experiment-tag", experiments.set_tag, (EXPERIMENT_ID, KEY, VALUE)),
    Endpoint("POST", "experiments/delete-experiment-tag", experiments.delete_tag, (EXPERIMENT_ID, KEY)),
]

RUNS = [
    Endpoint(
        "POST",
        "runs/create",
        runs.create,
        (text("experiment_id"), text("user_id"), text("run_name"), whole("start_time"), pairs("tags")),
    ),
    Endpoint("GET", "runs/get", runs.get, RUN),
    Endpoint(
        "POST",
        "runs/update",
        runs.update,
        (*RUN, choice("status", STATUS_NUMBERS), whole("end_time"), text("run_name")),
    ),
    Endpoint("POST", "runs/delete", runs.delete, (REQUIRED_RUN,)),
    Endpoint("POST", "runs/restore", runs.restore, (REQUIRED_RUN,)),
    Endpoint("POST", "runs/search", runs.search, RUN_SEARCH),
    Endpoint("POST", "runs/log-metric", logs.log_metric, parsed=False),
    Endpoint("POST", "runs/log-batch", logs.log_batch, parsed=False),
    Endpoint("POST", "runs/log-parameter", logs.log_parameter, (*RUN, KEY, VALUE)),
    Endpoint("POST", "runs/set-tag", logs.set_tag, (*RUN, KEY, VALUE)),
    Endpoint("POST", "runs/delete-tag", logs.delete_tag, (REQUIRED_RUN, KEY)),
    Endpoint("POST", "runs/log-model", logs.log_model, (REQUIRED_RUN, text("model_json", required=True))),
    Endpoint(
        "POST",
        "runs/log-inputs",
        runs.log_inputs,
        (REQUIRED_RUN, objects("datasets", DATASET, pairs("tags")), objects("models", MODEL_ID)),
    ),
    Endpoint(
        "POST",
        "runs/outputs",
        runs.log_outputs,
        (REQUIRED_RUN, objects("models", MODEL_ID, whole("step"), required=True)),
    ),
]

METRICS = [
    Endpoint(
        "GET",
        "metrics/get-history",
        history.get,
        (*RUN, text("metric_key", required=True), whole("max_results", most=1 << 31), *PAGE),
    ),
    Endpoint("GET", "metrics/get-history-bulk-interval", history.bulk_interval, BULK_INTERVAL),
    Endpoint(
        "GET",
        "metrics/get-history-bulk",
        history.bulk,
        (texts("run_id"), text("metric_key"), whole("max_results")),
    ),
]

LOGGED_MODELS = [
    Endpoint(
        "POST",
        "logged-models",
        logged_models.create,
        (
            EXPERIMENT_ID,
            text("name"),
            text("model_type"),
            text("source_run_id"),
            pairs("params"),
            pairs("tags"),
        ),
    ),
    Endpoint("POST", "logged-models/search", logged_models.search, LOGGED_MODEL_SEARCH),
    Endpoint("GET", "logged-models/<str:model_id>", logged_models.get, (flag("allow_deleted"),)),
    Endpoint(
        "PATCH",
        "logged-models/<str:model_id>",
        logged_models.finalize,
        (choice("status", logged_models.NUMBERS, required=True),),
    ),
    Endpoint("DELETE", "logged-models/<str:model_id>", logged_models.delete),
    Endpoint("PATCH", "logged-models/<str:model_id>/tags", logged_models.set_tags, (pairs("tags"),)),
    Endpoint("DELETE", "logged-models/<str:model_id>/tags/<path:tag_key>", logged_models.delete_tag),
    Endpoint("POST", "logged-models/<str:model_id>/params", logged_models.log_parameters, (pairs("params"),)),
    Endpoint(
        "GET",
        "logged-models/<str:model_id>/artifacts/directories",
        artifacts.list_of_logged_model,
        (text("artifact_directory_path"),),
    ),
    Endpoint(
        "GET",
        "logged-models/<str:model_id>/artifacts/files",
        artifacts.get_of_logged_model,
        (text("artifact_file_path", required=True),),
    ),
]

REGISTRY = [
    Endpoint(
        "POST",
        "registered-models/create",
        registry.create,
        (NAME, text("description"), pairs("tags")),
    ),
    Endpoint("GET", "registered-models/get", registry.get, (NAME,)),
    Endpoint("POST", "registered-models/rename", registry.rename, (NAME, text("new_name", required=True))),
    Endpoint("PATCH", "registered-models/update", registry.update, (NAME, text("description"))),
    Endpoint("DELETE", "registered-models/delete", registry.delete, (NAME,)),
    Endpoint("GET", "registered-models/search", registry.search, _search(100)),
    Endpoint(
        "GET", "registered-models/get-latest-versions", registry.latest_versions, (NAME, texts("stages"))
    ),
    Endpoint(
        "POST", "registered-models/get-latest-versions", registry.latest_versions, (NAME, texts("stages"))
    ),
    Endpoint("POST", "registered-models/set-tag", registry.set_tag, (NAME, KEY, VALUE)),
    Endpoint("DELETE", "registered-models/delete-tag", registry.delete_tag, (NAME, KEY)),
    Endpoint("POST", "registered-models/alias", versions.set_alias, (*VERSION, ALIAS)),
    Endpoint("DELETE", "registered-models/alias", registry.delete_alias, (NAME, ALIAS)),
    Endpoint("GET", "registered-models/alias", registry.get_by_alias, (NAME, ALIAS)),
    Endpoint(
        "POST",
        "model-versions/create",
        versions.create,
        (
            NAME,
            text("source", required=True),
            text("run_id"),
            text("model_id"),
            text("run_link"),
            text("description"),
            pairs("tags"),
        ),
    ),
    Endpoint("GET", "model-versions/get", versions.get, VERSION),
    Endpoint("PATCH", "model-versions/update", versions.update, (*VERSION, text("description"))),
    Endpoint("DELETE", "model-versions/delete", versions.delete, VERSION),
    Endpoint("GET", "model-versions/search", versions.search, _search(200_000)),
    Endpoint(
        "POST",
        "model-versions/transition-stage",
        versions.transition,
        (*VERSION, text("stage", required=True), flag("archive_existing_versions")),
    ),
    Endpoint("GET", "model-versions/get-download-uri", versions.download_uri, VERSION),
    Endpoint("POST", "model-versions/set-tag", versions.set_tag, (*VERSION, KEY, VALUE)),
    Endpoint("DELETE", "model-versions/delete-tag", versions.delete_tag, (*VERSION, KEY)),
]

ARTIFACT_LIST = [
    Endpoint("GET", "artifacts/list", artifacts.list_of_run, (*RUN, text("path"), *PAGE)),
]

# Below /api/2.0/mlflow-artifacts
PROXY = [
    Endpoint("GET", "artifacts", artifacts.list_by_address, (text("path"),)),
    Endpoint("GET", "artifacts/<path:artifact_path>", artifacts.get),
    Endpoint("PUT", "artifacts/<path:artifact_path>", artifacts.put, raw=True),
    Endpoint("DELETE", "artifacts/<path:artifact_path>", artifacts.delete),
    Endpoint(
        "POST",
        "mpu/create/<path:artifact_path>",
        artifacts.create_upload,
        (text("path", required=True), whole("num_parts")),
    ),
    Endpoint("POST", "mpu/complete/<path:artifact_path>", artifacts.complete_upload, (text("upload_id"),)),
    Endpoint("POST", "mpu/abort/<path:artifact_path>", artifacts.abort_upload, (text("upload_id"),)),
]

# Below /api/3.0/mlflow
WORKSPACES = [
    Endpoint("GET", "workspaces", server.list_workspaces),
    Endpoint("GET", "workspaces/<str:workspace_name>", server.get_workspace),
]

# Below /
PLAIN = [
    Endpoint("GET", "get-artifact", artifacts.get_of_run, (*RUN, text("path", required=True))),
    Endpoint(
        "GET",
        "model-versions/get-artifact",
        artifacts.get_of_version,
        (*VERSION, text("path", required=True)),
    ),
]

# Below /ajax-api/2.0/mlflow alone: what MLflow's own page asks for
PAGE_ONLY = [
    Endpoint("POST", "experiments/search-datasets", runs.search_datasets, (texts("experiment_ids"),)),
    Endpoint("POST", "upload-artifact", artifacts.upload, (text("run_uuid"), text("path")), raw=True),
]

TRACKING = [*EXPERIMENTS, *RUNS, *METRICS, *LOGGED_MODELS, *REGISTRY, *ARTIFACT_LIST]
