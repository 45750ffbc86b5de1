"""Model versions: create from a run, a logged model or another version; get, update, delete, search, stages, tags."""

import posixpath
import re
from typing import Any
from urllib.parse import unquote, urlparse

from django.db.models import F

from webapp.experiments.files import Owner
from webapp.experiments.models import LoggedModel, Run
from webapp.mlflow import filters, limits, logged_models, model_search, paging, registry, runs, shapes
from webapp.mlflow.artifacts import located
from webapp.mlflow.endpoint import Call
from webapp.mlflow.errors import MlflowError, invalid, missing
from webapp.mlflow.registry_shapes import location, stage_of, version_shape
from webapp.registry import queries, services
from webapp.registry.models import Model, ModelVersion

MOST_LISTED = 200_000
PROMPT_SOURCES = ("dummy-source", "prompt-template")  # a prompt has its text as a tag, and no files
ACTIVE_STAGES = ("staging", "production")
MODEL_URI = re.compile(r"/+(?P<name>[^/@]+)(?:/(?P<version>[^/@]+)|@(?P<alias>[^/@]+))?")
GRAMMAR = filters.Grammar(
    attributes=("name", "version_number", "run_id", "source_path"), numeric=("version_number",)
)
COMPARED = {
    "name": F("model__name"),
    "version_number": model_search.number("version"),
    "run_id": model_search.text("run_id"),
    "source_path": F("source"),
}
COLUMNS = {
    "name": "model__name",
    "version_number": "version",
    "creation_timestamp": "created_ms",
    "last_updated_timestamp": "changed_ms",
}


def find(call: Call, name: str, number: str) -> tuple[Model, ModelVersion]:
    limits.model_name(name)
    version = limits.version(number)
    model = queries.model(call.team, name)
    rows = queries.living_versions([call.team]).filter(model=model, version=max(version, 0)) if model else []
    for row in rows:
        return row.model, row
    raise missing(f"Model Version (name={name}, version={number}) not found")


def _refused(source: str, field: str) -> MlflowError:
    return invalid(
        f"Invalid model version source: '{source}'. The {field} request parameter must identify the resource that "
        "contains the source."
    )


def create(call: Call) -> dict[str, Any]:
    limits.model_name(call["name"])
    tags = limits.stored_tags(call["tags"], limits.MAX_MODEL_TAG)
    source = call["source"]
    prompt = registry.is_prompt(tags)
    if prompt and source not in PROMPT_SOURCES:
        raise invalid(f"Invalid prompt source: '{source}'. Prompt sources must use an MLflow placeholder.")
    _require_absolute(source)
    model = registry.find(call, call["name"])
    fields: dict[str, Any] = {
        "tags": tags,
        "description": call["description"] or "",
        "run_link": call["run_link"] or "",
    }
    version = (
        services.register_logged(call.actor, model, source, location=source, **fields)
        if prompt
        else _from_source(call, model, source, fields)
    )
    _, row = find(call, model.name, str(version.version))
    return {"model_version": version_shape(row, row.model)}


def _require_absolute(source: str) -> None:
    plain = source
    while (decoded := unquote(plain)) != plain:
        plain = decoded
    if ".." in plain.split("/") or "\0" in plain:
        raise invalid(
            f"Invalid model version source: '{source}'. If supplying a source as an http, https, local file path, ftp, "
            "objectstore, or mlflow-artifacts uri, an absolute path must be provided without relative path references "
            "present. Please provide an absolute path."
        )


def _from_source(call: Call, model: Model, source: str, fields: dict[str, Any]) -> ModelVersion:
    parsed = urlparse(source)
    if parsed.scheme == "models":
        return _from_model(call, model, source, fields)
    run_id, model_id = call["run_id"] or "", call["model_id"] or ""
    run = _known_run(call, run_id)
    logged = logged_models.find(call, model_id) if model_id else None
    files: tuple[Owner, str] | None = None
    if parsed.scheme == "runs":
        owner_id, _, folder = parsed.path.lstrip("/").partition("/")
        if owner_id != run_id or run is None or parsed.netloc:
            raise _refused(source, "run_id")
        files = (run, folder.strip("/"))
    elif parsed.scheme == "mlflow-artifacts" or "/api/2.0/mlflow-artifacts/artifacts/" in source:
        files = _below(call, source, run, logged)
    elif parsed.scheme in ("", "file"):
        raise invalid(
            f"Invalid model version source: '{source}'. To use a local path as a model version source, the "
            "run_id request parameter has to be specified and the local path has to be contained within the artifact "
            "directory of the run specified by the run_id."
        )
    if run is None and logged is not None:
        run = logged.run
    return services.register_logged(
        call.actor, model, source, files=files, run=run, logged_model=model_id,
        location=source if files is None or parsed.scheme == "runs" else _address(*files), **fields,
    )  # fmt: skip


def _known_run(call: Call, run_id: str) -> Run | None:
    """MLflow records any run id; one that is not here is left out."""
    try:
        return runs.find(call, run_id) if run_id else None
    except MlflowError:
        return None


def _below(call: Call, source: str, run: Run | None, logged: LoggedModel | None) -> tuple[Owner, str]:
    """The folder of an artifact address, which must belong to the run or logged model that the request names."""
    field = "model_id" if logged is not None else "run_id"
    path = source.partition("/mlflow-artifacts/artifacts/")[2] or urlparse(source).path
    try:
        place = located(call, path.lstrip("/"))
    except MlflowError:
        raise _refused(source, field) from None
    if place.owner.pk not in ({run.pk} if run else set()) | ({logged.pk} if logged else set()):
        raise _refused(source, field)
    return place.owner, place.path


def _address(owner: Owner, folder: str) -> str:
    root = shapes.artifact_uri(owner) if isinstance(owner, Run) else logged_models.artifact_uri(owner)
    return posixpath.join(root, folder) if folder else root


def _from_model(call: Call, model: Model, source: str, fields: dict[str, Any]) -> ModelVersion:
    """models:/m-ID is a logged model; models:/NAME/VERSION and models:/NAME@ALIAS another version."""
    match = MODEL_URI.fullmatch(urlparse(source).path)
    if match is None or urlparse(source).netloc:
        raise _refused(source, "model_id")
    if match["version"] is None and match["alias"] is None:
        logged = logged_models.find(call, match["name"])
        if call["model_id"] != logged.id:
            raise _refused(source, "model_id")
        run = _known_run(call, call["run_id"] or "") or logged.run
        return services.register_logged(
            call.actor, model, source, files=(logged, ""), run=run, logged_model=logged.id,
            location=logged_models.artifact_uri(logged), **fields,
        )  # fmt: skip
    like = _named(call, match)
    return services.register_logged(
        call.actor, model, f"models:/{like.model.name}/{like.version}", like=like, run=like.run,
        logged_model=like.logged_model, location=location(like), **fields,
    )  # fmt: skip


def _named(call: Call, match: re.Match[str]) -> ModelVersion:
    if match["version"] is not None:
        return find(call, match["name"], match["version"])[1]
    model = registry.find(call, match["name"])
    for version in queries.versions(model):
        if any(alias.name == match["alias"] for alias in version.aliases.all()):
            return version
    raise invalid(f"Registered model alias {match['alias']} not found.")


def get(call: Call) -> dict[str, Any]:
    model, row = find(call, call["name"], call["version"])
    return {"model_version": version_shape(row, model)}


def update(call: Call) -> dict[str, Any]:
    _, row = find(call, call["name"], call["version"])
    services.describe(call.actor, row, call["description"] or "")
    return get(call)


def delete(call: Call) -> dict[str, Any]:
    services.delete_version(call.actor, find(call, call["name"], call["version"])[1])
    return {}


def transition(call: Call) -> dict[str, Any]:
    stage = stage_of(call["stage"])
    if call["archive_existing_versions"] and stage not in ACTIVE_STAGES:
        raise invalid(
            f"Model version transition cannot archive existing model versions because '{call['stage']}' is not an "
            "Active stage. Valid stages are ['Staging', 'Production']"
        )
    _, row = find(call, call["name"], call["version"])
    services.set_stage(call.actor, row, stage, archive_others=call["archive_existing_versions"])
    return get(call)


def download_uri(call: Call) -> dict[str, Any]:
    return {"artifact_uri": location(find(call, call["name"], call["version"])[1])}


def set_tag(call: Call) -> dict[str, Any]:
    key, value = limits.stored_tag(call["key"], call["value"], limits.MAX_MODEL_TAG)
    services.set_tags(call.actor, find(call, call["name"], call["version"])[1], {key: value})
    return {}


def delete_tag(call: Call) -> dict[str, Any]:
    key = limits.key(call["key"], "key")
    services.delete_tags(call.actor, find(call, call["name"], call["version"])[1], [key])
    return {}


def set_alias(call: Call) -> dict[str, Any]:
    name = limits.alias(call["alias"], new=True)
    services.set_alias(call.actor, find(call, call["name"], call["version"])[1], name)
    return {}


def search(call: Call) -> dict[str, Any]:
    size = call["max_results"]
    if size < 1:
        raise invalid(f"Invalid value for max_results. It must be a positive integer, but got {size}")
    if size > MOST_LISTED:
        raise invalid(
            f"Invalid value for request parameter max_results. It must be at most {MOST_LISTED}, but got value {size}"
        )
    clauses = filters.parse(call["filter"], GRAMMAR)
    rows = queries.living_versions([call.team])
    rows = model_search.matching(rows, clauses, COMPARED, model_tags="model__tags")
    order = call["order_by"] or ("last_updated_timestamp DESC",)
    rows = model_search.ordered(rows, order, COLUMNS, ("name ASC", "version_number DESC"))
    selected, token = paging.page_of_rows(rows, call["page_token"], size)
    found = [version_shape(row, row.model, aliases=False) for row in selected]
    return paging.answer("model_versions", found, token)
