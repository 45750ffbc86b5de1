"""Reads of evaluation suites and of their runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from django.db.models import QuerySet

from platform_core.errors import TrainmasterError
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.evaluations.models import EvaluationRun, Suite

if TYPE_CHECKING:
    from webapp.registry.models import ModelVersion


def suites(teams: Iterable[str] | None) -> list[Suite]:
    """The newest version of each suite of these teams; None is every team."""
    rows = Suite.objects.select_related("author")
    rows = rows if teams is None else rows.filter(team__in=list(teams))
    return list(rows.order_by("team_id", "name", "-version").distinct("team_id", "name"))


def versions(actor: Actor, team: str, name: str) -> list[Suite]:
    """Newest first. Raises not_found, also where the actor may not see it."""
    permissions.require(actor, "suite.view", team, what=f"evaluation suite {team}/{name}")
    rows = list(Suite.objects.filter(team=team, name=name).select_related("author").order_by("-version"))
    if not rows:
        raise TrainmasterError("not_found", what=f"evaluation suite {team}/{name}")
    return rows


def newest(team: str, name: str) -> Suite | None:
    rows = Suite.objects.filter(team=team, name=name).select_related("author")
    return rows.order_by("-version").first()


def datasets_of_suites() -> set[str]:
    """The dataset versions that suites of any version evaluate on."""
    rows = Suite.objects.exclude(spec__job__dataset=None).values_list("spec__job__dataset", flat=True)
    return set(rows)


def runs_of(version: ModelVersion) -> list[EvaluationRun]:
    """Newest first."""
    return list(_runs().filter(version=version.pk).order_by("-asked_ms", "-pk"))


def newest_runs(version_ids: Iterable[str]) -> dict[str, list[EvaluationRun]]:
    """By version the newest run of each suite, by name."""
    rows = _runs().filter(version__in=list(version_ids))
    rows = rows.order_by("version", "suite__name", "-asked_ms", "-pk").distinct("version", "suite__name")
    runs: dict[str, list[EvaluationRun]] = {}
    for row in rows:
        runs.setdefault(row.version_id, []).append(row)
    return runs


def _runs() -> QuerySet[EvaluationRun]:
    return EvaluationRun.objects.select_related("suite", "asked_by")
