"""The gate of a model on its page: the policy, and how each version stands before it."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from platform_core.errors import TrainmasterError
from platform_core.registry import policy_reader
from platform_core.registry.gates import Direction, Measurer, Policy
from platform_core.registry.stages import MOVES, Stage
from platform_core.units import plural
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.evaluations import queries as evaluations
from webapp.evaluations import services as evaluation_services
from webapp.evaluations.models import EvaluationRun
from webapp.pages.registry.exports import ExportsPanel, TargetRow, exports_of, target_row
from webapp.registry import evidence, exports, gates, queries, services
from webapp.registry.models import Evaluation, Model, ModelVersion, ServingTarget

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
    by_server: bool
    job: str  # in which the server measured it


@dataclass(frozen=True, slots=True)
class Standing:
    version: ModelVersion
    results: tuple[Result, ...]
    approvals: tuple[str, ...]
    staging: tuple[str, ...]  # the reasons against it
    production: tuple[str, ...]
    moves: tuple[str, ...]  # the stages that it may be moved to, its own the first
    approved: bool  # by the reader, for the results that there are now
    evidence: str  # digest of those
    runs: tuple[EvaluationRun, ...]  # the newest of each suite
    exports: ExportsPanel
    notes: tuple[str, ...]  # what was found of its data and its weights


@dataclass(frozen=True, slots=True)
class GatePanel:
    rules: tuple[str, ...]
    standings: tuple[Standing, ...]
    targets: tuple[TargetRow, ...]  # of the team, with what they ask
    suites: tuple[str, ...]  # by which the server can evaluate
    may_change: bool
    may_approve: bool
    may_promote: bool
    may_evaluate: bool
    may_override: bool


def panel(actor: Actor, model: Model, versions: Sequence[ModelVersion]) -> GatePanel:
    policy = gates.policy_of(model)
    shown = [
        one for place, one in enumerate(versions) if place < SHOWN or one.stage in ("staging", "production")
    ]
    runs = evaluations.newest_runs([version.pk for version in shown])
    targets = list(exports.targets([model.team_id]))
    return GatePanel(
        rules=tuple(_rules(policy)),
        standings=tuple(
            _standing(actor, model, version, runs.get(version.pk, []), targets) for version in shown
        ),
        targets=tuple(target_row(row) for row in targets),
        suites=tuple(suite.name for suite in evaluations.suites([model.team_id])),
        may_change=permissions.may(actor, "model.gate", model.team_id),
        may_approve=permissions.may(actor, "model.approve", model.team_id),
        may_promote=permissions.may(actor, "model.register", model.team_id),
        may_evaluate=permissions.may(actor, "suite.run", model.team_id),
        may_override=actor.is_admin,
    )


def _moves(stage: Stage) -> tuple[str, ...]:
    """By people: a recall and its end move a version by themselves."""
    if stage is Stage.RECALLED:
        return (stage.value,)
    return (stage.value, *(target.value for target in Stage if target in MOVES[stage] - {Stage.RECALLED}))


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
    if policy.measured_by is Measurer.SERVER:
        rules.append("results count when the server has measured them")
    if policy.uncontaminated:
        rules.append("no file of the evaluation data was trained on")
    if policy.serving_target:
        rules.append(f"one of its exports serves the target {policy.serving_target}")
    if policy.self_validation:
        rules.append("its weights are finite and as registered, found by a job of an evaluation")
    if policy.approvals:
        roles = " or ".join(sorted(policy.approvers))
        rules.append(
            f"{plural(policy.approvals, 'approval')} by a {roles} who did not register it, for production"
        )
    return rules


def _standing(
    actor: Actor,
    model: Model,
    version: ModelVersion,
    runs: Sequence[EvaluationRun],
    targets: Sequence[ServingTarget],
) -> Standing:
    version.model = model
    approvals = list(version.approvals.select_related("user"))
    reasons = gates.standing(version)
    digest = evidence.digest(version, gates.policy_of(model))
    results = list(evidence.evaluations(version))
    return Standing(
        version,
        results=tuple(_results(results)),
        approvals=tuple(
            f"{row.user.username} ({row.role}{'' if row.evidence == digest else ', for results since replaced'})"
            for row in approvals
        ),
        staging=reasons[Stage.STAGING],
        production=reasons[Stage.PRODUCTION],
        moves=_moves(Stage(version.stage)),
        approved=any(row.user.username == actor.username and row.evidence == digest for row in approvals),
        evidence=digest,
        runs=tuple(runs),
        exports=exports_of(version, targets),
        notes=tuple(_notes(version, results)),
    )


def _results(rows: Sequence[Evaluation]) -> list[Result]:
    return [
        Result(
            row.suite, metric, place, measured["mean"], measured["low"], measured["high"],
            measured["samples"], row.by_server, row.job_id or "",
        )
        for row in rows
        for place, metrics in {"": row.metrics, **dict(sorted(row.slices.items()))}.items()
        for metric, measured in metrics.items()
    ]  # fmt: skip


def _notes(version: ModelVersion, rows: Sequence[Evaluation]) -> Iterator[str]:
    for row in rows:
        found = row.contamination
        if found and found["shared"] is None:
            yield f"{row.suite}: its data was not compared with the training data: {found['problem']}"
        elif found and found["shared"]:
            paths = ", ".join(found["paths"][:3]) + (" and more" if found["shared"] > 3 else "")
            yield f"{row.suite}: {plural(found['shared'], 'file')} of its data in the training data: {paths}"
        elif found:
            yield f"{row.suite}: none of its {plural(found['files'], 'file')} in the training data"
    if version.validation:
        tensors = plural(version.validation["tensors"], "tensor")
        yield f"weights: {version.validation['problem'] or f'{tensors}, finite and as registered'}"


def change(actor: Actor, model: Model, text: str) -> str:
    """Sets the gate that somebody wrote as JSON; the sentence that says so. Raises request_invalid."""
    try:
        given: Any = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise TrainmasterError("request_invalid", what="the gate", why=f"it is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise TrainmasterError("request_invalid", what="the gate", why="it must be an object of JSON")
    policy = gates.set_policy(actor, model, given)
    return f"The gate of {model.name} has {plural(len(_rules(policy)), 'rule')}."


REFUSALS = frozenset(
    {"gate_refused", "stale_version", "request_invalid"}
)  # of somebody who may do it in principle


@login_required
@require_POST
def approve(request: HttpRequest, team: str, name: str, number: int) -> HttpResponse:
    def act(version: ModelVersion) -> str:
        if request.POST.get("withdraw"):
            gates.withdraw(actor_of(request), version)
            return f"Your approval of version {number} is taken back."
        gates.approve(actor_of(request), version, request.POST.get("evidence", ""))
        return f"You approved version {number}."

    return _answered(request, team, name, number, act)


@login_required
@require_POST
def stage(request: HttpRequest, team: str, name: str, number: int) -> HttpResponse:
    def act(version: ModelVersion) -> str:
        wanted, override = request.POST.get("stage", ""), request.POST.get("override", "")
        row = services.set_stage(actor_of(request), version, wanted, override=override)
        return f"Version {number} is in {row.stage}."

    return _answered(request, team, name, number, act)


@login_required
@require_POST
def evaluate(request: HttpRequest, team: str, name: str, number: int) -> HttpResponse:
    def act(version: ModelVersion) -> str:
        suite = request.POST.get("suite", "")
        run, new = evaluation_services.evaluate(actor_of(request), version, suite, again=True)
        return f"The server evaluates version {number} by {run.suite}{'' if new else ' already'}."

    return _answered(request, team, name, number, act)


@login_required
@require_POST
def measure(request: HttpRequest, team: str, name: str, number: int) -> HttpResponse:
    def act(version: ModelVersion) -> str:
        row = exports.measure(actor_of(request), version, request.POST.get("target", ""))
        return f"A job measures the exports of version {number} on {row.gpu_type}."

    return _answered(request, team, name, number, act)


def _answered(
    request: HttpRequest, team: str, name: str, number: int, act: Callable[[ModelVersion], str]
) -> HttpResponse:
    """Back on the page of the model, with what was done or why it was refused."""
    version = queries.numbered(queries.model_for(actor_of(request), team, name), number)
    try:
        messages.success(request, act(version))
    except TrainmasterError as error:
        if error.code not in REFUSALS:
            raise
        messages.error(request, error.sentence)
    return redirect("registry:detail", team=team, name=name)
