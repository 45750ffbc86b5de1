"""The gate of a model on its page: the policy, and how each version stands before it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from platform_core.errors import TrainmasterError
from platform_core.registry import policy_reader
from platform_core.registry.gates import Direction, Policy
from platform_core.registry.stages import Stage
from platform_core.units import plural
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.registry import gates, queries, services
from webapp.registry.models import STAGES, Model, ModelVersion

SHOWN = 5  # the newest versions; older ones are shown while they are in staging or production


@dataclass(frozen=True, slots=True)
class Result:
    suite: str
    metric: str
    place: str  # of a slice; "" for all samples
    mean: float | None
    low: float | None
    high: float | None
    samples: int


@dataclass(frozen=True, slots=True)
class Standing:
    version: ModelVersion
    results: tuple[Result, ...]
    approvals: tuple[str, ...]
    staging: tuple[str, ...]  # the reasons against it
    production: tuple[str, ...]
    approved: bool  # by the reader


@dataclass(frozen=True, slots=True)
class GatePanel:
    rules: tuple[str, ...]
    standings: tuple[Standing, ...]
    stages: tuple[str, ...]
    may_change: bool
    may_approve: bool
    may_promote: bool
    may_override: bool


def panel(actor: Actor, model: Model, versions: Sequence[ModelVersion]) -> GatePanel:
    policy = gates.policy_of(model)
    shown = [
        one for place, one in enumerate(versions) if place < SHOWN or one.stage in ("staging", "production")
    ]
    return GatePanel(
        rules=tuple(_rules(policy)),
        standings=tuple(_standing(actor, model, version) for version in shown),
        stages=STAGES,
        may_change=permissions.may(actor, "model.gate", model.team_id),
        may_approve=permissions.may(actor, "model.approve", model.team_id),
        may_promote=permissions.may(actor, "model.register", model.team_id),
        may_override=actor.is_admin,
    )


def written(model: Model) -> str:
    """Its gate as JSON."""
    return json.dumps(policy_reader.as_mapping(gates.policy_of(model)), indent=2) if model.gate else "{}"


def _rules(policy: Policy) -> list[str]:
    rules = []
    for threshold in policy.thresholds:
        bound = "at least" if threshold.direction is Direction.HIGHER else "at most"
        where = ", in every slice as well" if threshold.every_slice else ""
        rules.append(f"{threshold.suite}: {threshold.metric} {bound} {threshold.bound:.4g}{where}")
    rules += [
        f"{margin.suite}: {margin.metric} at most {margin.worse_by:.4g} worse than production, with 95 % confidence"
        for margin in policy.margins
    ]
    if policy.approvals:
        roles = " or ".join(sorted(policy.approvers))
        rules.append(
            f"{plural(policy.approvals, 'approval')} by a {roles} who did not register it, for production"
        )
    return rules


def _standing(actor: Actor, model: Model, version: ModelVersion) -> Standing:
    version.model = model
    approvals = list(version.approvals.select_related("user"))
    reasons = gates.standing(version)
    return Standing(
        version,
        results=tuple(_results(version)),
        approvals=tuple(f"{row.user.username} ({row.role})" for row in approvals),
        staging=reasons[Stage.STAGING],
        production=reasons[Stage.PRODUCTION],
        approved=any(row.user.username == actor.username for row in approvals),
    )


def _results(version: ModelVersion) -> list[Result]:
    return [
        Result(
            row.suite, metric, place, measured["mean"], measured["low"], measured["high"], measured["samples"]
        )
        for row in version.evaluations.defer("samples")
        for place, metrics in {"": row.metrics, **dict(sorted(row.slices.items()))}.items()
        for metric, measured in metrics.items()
    ]


def change(actor: Actor, model: Model, text: str) -> str:
    """Sets the gate that somebody wrote as JSON; the sentence that says so. Raises request_invalid."""
    try:
        given: Any = json.loads(text or "{}")
    except ValueError as error:
        raise TrainmasterError("request_invalid", what="the gate", why=f"it is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise TrainmasterError("request_invalid", what="the gate", why="it must be an object of JSON")
    policy = gates.set_policy(actor, model, given)
    return f"The gate of {model.name} has {plural(len(_rules(policy)), 'rule')}."


@login_required
@require_POST
def approve(request: HttpRequest, team: str, name: str, number: int) -> HttpResponse:
    version = queries.numbered(queries.model_for(actor_of(request), team, name), number)
    if request.POST.get("withdraw"):
        gates.withdraw(actor_of(request), version)
        messages.success(request, f"Your approval of version {number} is taken back.")
    else:
        gates.approve(actor_of(request), version)
        messages.success(request, f"You approved version {number}.")
    return redirect("registry:detail", team=team, name=name)


@login_required
@require_POST
def stage(request: HttpRequest, team: str, name: str, number: int) -> HttpResponse:
    version = queries.numbered(queries.model_for(actor_of(request), team, name), number)
    row = services.set_stage(
        actor_of(request), version, request.POST.get("stage", ""), override=request.POST.get("override", "")
    )
    messages.success(request, f"Version {number} is in {row.stage}.")
    return redirect("registry:detail", team=team, name=name)
