"""What deployments add to the model pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webapp.deployments import queries
from webapp.deployments.models import Deployment
from webapp.pages.deployments import rollout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webapp.registry.models import Model


def newest_of(models: Iterable[Model]) -> dict[int, str]:
    """Model key → how far its newest deployment is, for all of them at once; models never deployed are left out."""
    rows = Deployment.objects.filter(model_version__model__in=list(models))
    newest = rows.order_by("model_version__model", "-created_ms").distinct("model_version__model")
    model_of = dict(newest.values_list("id", "model_version__model"))
    progress = queries.progress_of_all(list(model_of))
    return {model: _label(progress[deployment]) for deployment, model in model_of.items()}


def _label(progress: Any) -> str:
    return f"{progress.workers_complete} of {progress.workers} nodes"


def of_model(model: Model) -> dict[str, list[dict[str, Any]]]:
    """Version id → its deployments, newest first."""
    rows = (
        Deployment.objects.filter(model_version__model=model)
        .select_related("rollout")
        .order_by("-created_ms")
    )
    by_version: dict[str, list[dict[str, Any]]] = {}
    newest = list(rows[:50])
    progress = queries.progress_of_all([row.id for row in newest])
    for row in newest:
        state = progress[row.id]
        line = {
            "id": row.id,
            "state": queries.shown_state(row, state),
            "label": _label(state),
        }
        by_version.setdefault(row.model_version_id, []).append(line | {"rollout": rollout.badge(row)})
    return by_version
