"""Reads of retraining policies and cycles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from django.db.models import QuerySet

from platform_core.errors import TrainmasterError
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.retraining.models import Cycle, Policy

if TYPE_CHECKING:
    from webapp.registry.models import Model


def policy(model: Model) -> Policy | None:
    return Policy.objects.filter(model=model).select_related("model", "author").first()


def policies(teams: Iterable[str] | None) -> list[Policy]:
    """Of models that are not deleted; of every team for None."""
    rows = Policy.objects.filter(model__deleted_ms=None).select_related("model", "author")
    rows = rows if teams is None else rows.filter(model__team__in=list(teams))
    return list(rows.order_by("model__team", "model__name"))


def cycles(model: Model, limit: int = 50) -> list[Cycle]:
    """Newest first."""
    return list(_cycles().filter(model=model).order_by("-began_ms", "-id")[:limit])


def newest(models: Iterable[int]) -> dict[int, Cycle]:
    """By model the newest cycle; models without one are left out."""
    rows = _cycles().filter(model__in=list(models)).order_by("model", "-began_ms", "-id").distinct("model")
    return {row.model_id: row for row in rows}


def cycle_for(actor: Actor, cycle_id: str) -> Cycle:
    """Raises not_found, also where the actor may not see it."""
    row = _cycles().filter(pk=cycle_id).first()
    what = f"retraining cycle {cycle_id}"
    if row is None:
        raise TrainmasterError("not_found", what=what)
    permissions.require(actor, "retraining.view", row.model.team_id, what=what)
    return row


def _cycles() -> QuerySet[Cycle]:
    return Cycle.objects.select_related("model", "author", "asked_by", "base", "endpoint", "job", "version")
