"""What deployments add to the model pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webapp.deployments import queries
from webapp.deployments.models import Deployment
from webapp.pages.deployments import rollout

if TYPE_CHECKING:
    from webapp.registry.models import Model


def of_model(model: Model) -> dict[str, list[dict[str, Any]]]:
    """Version id → its deployments, newest first."""
    rows = (
        Deployment.objects.filter(model_version__model=model)
        .select_related("rollout")
        .order_by("-created_ms")
    )
    found: dict[str, list[dict[str, Any]]] = {}
    newest = list(rows[:50])
    progress = queries.progress_of_all([row.id for row in newest])
    for row in newest:
        told = progress[row.id]
        line = {
            "id": row.id,
            "state": queries.shown_state(row, told),
            "label": f"{told.workers_complete} of {told.workers} nodes",
        }
        found.setdefault(row.model_version_id, []).append(line | {"rollout": rollout.badge(row)})
    return found
