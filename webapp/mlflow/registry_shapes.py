"""Registered models and their versions as MLflow writes them."""

from typing import Any

from webapp.mlflow import shapes
from webapp.mlflow.errors import invalid
from webapp.registry import queries
from webapp.registry.models import Model, ModelVersion

STAGES = {"none": "candidate", "staging": "staging", "production": "production", "archived": "archived"}
# Ours → MLflow's, which has no word for a version that passed its gate, or for one that was recalled.
SHOWN = {
    "candidate": "None", "validated": "None", "staging": "Staging", "production": "Production", "archived": "Archived",
    "recalled": "Archived",
}  # fmt: skip
STATUS = {
    "registering": "PENDING_REGISTRATION",
    "ready": "READY",
    "external": "READY",
    "failed": "FAILED_REGISTRATION",
}


def stage_of(text: str) -> str:
    if text.lower() not in STAGES:
        known = ", ".join(map(str.capitalize, STAGES))
        raise invalid(f"Invalid Model Version stage: {text}. Value must be one of {known}.")
    return STAGES[text.lower()]


def model_shape(row: Model) -> dict[str, Any]:
    versions = queries.versions(row)
    newest: dict[str, ModelVersion] = {}
    for version in reversed(versions):
        newest[SHOWN[version.stage]] = version
    aliases = [
        {"alias": alias.name, "version": str(version.version)}
        for version in versions
        for alias in version.aliases.all()
    ]
    return {
        "name": row.name,
        "creation_timestamp": row.created_ms,
        "last_updated_timestamp": row.changed_ms,
        **({"description": row.description} if row.description else {}),
        **(
            {"latest_versions": [version_shape(v, row, aliases=False) for v in newest.values()]}
            if newest
            else {}
        ),
        **({"tags": shapes.pairs(row.tags)} if row.tags else {}),
        **({"aliases": sorted(aliases, key=lambda alias: alias["alias"])} if aliases else {}),
    }


def version_shape(row: ModelVersion, model: Model, *, aliases: bool = True) -> dict[str, Any]:
    names = sorted(alias.name for alias in row.aliases.all()) if aliases else []
    return {
        "name": model.name,
        "version": str(row.version),
        "creation_timestamp": row.created_ms,
        "last_updated_timestamp": row.changed_ms,
        "current_stage": SHOWN[row.stage],
        "description": row.description,
        "source": source(row),
        "run_id": row.run_id or "",
        "status": STATUS[row.state],
        **({"status_message": row.error} if row.error else {}),
        **({"tags": shapes.pairs(row.tags)} if row.tags else {}),
        "run_link": row.run_link,
        **({"aliases": names} if names else {}),
        **({"model_id": row.logged_model} if row.logged_model else {}),
    }


def source(row: ModelVersion) -> str:
    """A version of ours that MLflow did not register is read through this server."""
    return row.source if row.location else location(row)


def location(row: ModelVersion) -> str:
    return row.location or f"mlflow-artifacts:/model-versions/{row.id}"
