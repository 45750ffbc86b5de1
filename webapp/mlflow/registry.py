"""Registered models: create, get, rename, update, delete, search, latest versions, tags, aliases."""

from collections.abc import Mapping
from typing import Any

from django.db.models import F

from platform_core.errors import TrainmasterError
from webapp.mlflow import filters, limits, model_search, paging
from webapp.mlflow.endpoint import Call
from webapp.mlflow.errors import MlflowError, exists, invalid, missing
from webapp.mlflow.registry_shapes import SHOWN, model_shape, stage_of, version_shape
from webapp.registry import queries, services
from webapp.registry.models import Model

MOST_LISTED = 1_000
GRAMMAR = filters.Grammar(attributes=("name",))
COLUMNS = {
    "name": "name",
    "timestamp": "changed_ms",
    "last_updated_timestamp": "changed_ms",
    "creation_timestamp": "created_ms",
}


def find(call: Call, name: str) -> Model:
    row = queries.model(call.team, limits.model_name(name))
    if row is None:
        raise missing(f"Registered Model with name={name} not found")
    return row


def create(call: Call) -> dict[str, Any]:
    name = limits.model_name(call["name"])
    tags = limits.stored_tags(call["tags"], limits.MAX_MODEL_TAG)
    try:
        row = services.create_model(
            call.actor, call.team, name, description=call["description"] or "", tags=tags
        )
    except TrainmasterError as error:
        if error.code == "duplicate_name":
            raise _taken(call, name, tags) from None
        raise
    return {"registered_model": model_shape(row)}


def is_prompt(tags: Mapping[str, str]) -> bool:
    return tags.get(model_search.PROMPT_TAG, "false").lower() == "true"


def _taken(call: Call, name: str, tags: Mapping[str, str]) -> MlflowError:
    new, row = is_prompt(tags), queries.model(call.team, name)
    if row is None or is_prompt(row.tags) == new:
        return exists(f"{'Prompt' if new else 'Registered Model'} (name={name}) already exists.")
    kinds = ("prompt", "registered model") if new else ("registered model", "prompt")
    return exists(
        f"Tried to create a {kinds[0]} with name {name!r}, but the name is already taken by a {kinds[1]}. MLflow does "
        "not allow creating a model and a prompt with the same name."
    )


def get(call: Call) -> dict[str, Any]:
    return {"registered_model": model_shape(find(call, call["name"]))}


def update(call: Call) -> dict[str, Any]:
    services.describe(call.actor, find(call, call["name"]), call["description"] or "")
    return {"registered_model": model_shape(find(call, call["name"]))}


def rename(call: Call) -> dict[str, Any]:
    new = limits.model_name(call["new_name"], "new_name")
    row = find(call, call["name"])
    try:
        services.rename_model(call.actor, row, new)
    except TrainmasterError as error:
        if error.code == "duplicate_name":
            raise exists(f"Registered Model (name={new}) already exists.") from None
        raise
    return {"registered_model": model_shape(find(call, new))}


def delete(call: Call) -> dict[str, Any]:
    services.delete_model(call.actor, find(call, call["name"]))
    return {}


def search(call: Call) -> dict[str, Any]:
    size = call["max_results"]
    if not 1 <= size <= MOST_LISTED:
        raise invalid(
            f"Invalid value for request parameter max_results. It must be at most {MOST_LISTED}, but got value {size}"
        )
    clauses = filters.parse(call["filter"], GRAMMAR)
    rows = model_search.matching(queries.living([call.team]), clauses, {"name": F("name")})
    rows = model_search.ordered(rows, call["order_by"], COLUMNS, ("name ASC",))
    selected, token = paging.page_of_rows(rows, call["page_token"], size)
    return paging.answer("registered_models", [model_shape(row) for row in selected], token)


def latest_versions(call: Call) -> dict[str, Any]:
    row = find(call, call["name"])
    stages = [stage_of(stage) for stage in call["stages"]] or list(SHOWN)
    newest: dict[str, Any] = {}
    for version in reversed(queries.versions(row)):
        newest[SHOWN[version.stage]] = version
    wanted = {SHOWN[stage] for stage in stages}
    found = [version_shape(version, row) for stage, version in newest.items() if stage in wanted]
    return {"model_versions": found} if found else {}


def set_tag(call: Call) -> dict[str, Any]:
    limits.model_name(call["name"])
    key, value = limits.stored_tag(call["key"], call["value"], limits.MAX_MODEL_TAG)
    services.set_tags(call.actor, find(call, call["name"]), {key: value})
    return {}


def delete_tag(call: Call) -> dict[str, Any]:
    services.delete_tags(call.actor, find(call, call["name"]), [limits.key(call["key"], "key")])
    return {}


def delete_alias(call: Call) -> dict[str, Any]:
    name = limits.alias(call["alias"])
    services.delete_alias(call.actor, find(call, call["name"]), name)
    return {}


def get_by_alias(call: Call) -> dict[str, Any]:
    name, row = limits.alias(call["alias"]), find(call, call["name"])
    versions = queries.versions(row)
    if name.lower() == "latest":
        if not versions:
            raise missing(f"Latest version not found for model {row.name}.")
        return {"model_version": version_shape(versions[0], row)}
    for version in versions:
        if any(alias.name == name for alias in version.aliases.all()):
            return {"model_version": version_shape(version, row)}
    raise MlflowError("INVALID_PARAMETER_VALUE", f"Registered model alias {name} not found.")
