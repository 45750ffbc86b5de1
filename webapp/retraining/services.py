"""The verbs of retraining: set the policy of a model, begin a cycle by hand, approve its next step, end it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.db import transaction

from platform_core.errors import IllegalTransition, TrainmasterError
from platform_core.retraining import cycle as machine
from platform_core.retraining import policy as policies
from platform_core.retraining.cycle import CycleState
from platform_core.retraining.triggers import Begin, Trigger, limits
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import SYSTEM, Actor
from webapp.base.identity import now_ms
from webapp.events import services as events
from webapp.jobs import services as jobs
from webapp.registry.services import subject_of
from webapp.retraining import looking, queries, recipe
from webapp.retraining.mapping import policy_of
from webapp.retraining.models import Cycle, Policy
from webapp.retraining.stepping import locked, step
from webapp.serving import services as serving

if TYPE_CHECKING:
    from webapp.registry.models import Model


@transaction.atomic
def set_policy(actor: Actor, model: Model, fields: object) -> Policy:
    """From now on cycles act as the actor. Raises SpecError of policy_invalid, and not_allowed."""
    permissions.require(actor, "retraining.configure", model.team_id, what=f"model {model}")
    spec = policies.as_mapping(policies.parse(fields))
    written = {
        "spec": spec, "author": accounts.user(actor.username), "changed_ms": now_ms(), "watched": {}, "held": {},
    }  # fmt: skip
    row, _ = Policy.objects.update_or_create(model=model, defaults=written)
    _record("RetrainingPolicySet", model, actor, spec)
    return row


@transaction.atomic
def delete_policy(actor: Actor, model: Model) -> None:
    """None is no error. A cycle under way goes on."""
    permissions.require(actor, "retraining.configure", model.team_id, what=f"model {model}")
    if Policy.objects.filter(model=model).delete()[0]:
        _record("RetrainingPolicyDeleted", model, actor, {})


def start(actor: Actor, model: Model) -> Cycle:
    """Begins a cycle now, within the limits of the policy. Raises not_found without one, and retraining_held."""
    permissions.require(actor, "retraining.start", model.team_id, what=f"model {model}")
    row = queries.policy(model)
    if row is None:
        raise TrainmasterError("not_found", what=f"retraining policy of model {model}")
    production = looking.production_of(row)
    now = now_ms()
    history = looking.history_of(row, recipe.of(production.version), now)
    if reasons := tuple(limits(policy_of(row), history, now)):
        raise TrainmasterError("retraining_held", model=str(model), reasons="; ".join(reasons))
    decision = Begin(Trigger.PERSON, f"{actor.username} asked for it")
    with transaction.atomic():
        cycle = looking.begin(row, production, decision, now, asked_by=actor.username)
    if cycle is None:
        raise TrainmasterError("retraining_held", model=str(model), reasons="a cycle is under way")
    return cycle


@transaction.atomic
def approve(actor: Actor, cycle_id: str, seen: str = "") -> Cycle:
    """The step that the cycle waits with. `seen` is the state that the actor saw; stale_version where it is another."""
    row = _locked(actor, cycle_id, "retraining.decide")
    if seen and seen != row.state:
        raise TrainmasterError("stale_version", what=f"Retraining {row.id}", seen=seen)
    step(row, machine.Approved(actor.username), actor.name)
    return row


@transaction.atomic
def cancel(actor: Actor, cycle_id: str) -> Cycle:
    """Its job is stopped, and its canary rolled back. Raises illegal_transition where it has ended."""
    row = _locked(actor, cycle_id, "retraining.decide")
    state = CycleState(row.state)
    step(row, machine.Cancelled(actor.username), actor.name)
    if state is CycleState.TRAINING and row.job_id:
        _cancel_job(row)
    if state is CycleState.CANARY and row.endpoint is not None and row.endpoint.canary_id == row.version_id:
        serving.roll_back(actor, row.endpoint.team_id, row.endpoint.name)
    return row


def _cancel_job(row: Cycle) -> None:
    try:
        jobs.cancel(SYSTEM, row.job_id or "", f"retraining {row.id} was cancelled")
    except IllegalTransition:
        return  # it has ended by itself


def _locked(actor: Actor, cycle_id: str, action: str) -> Cycle:
    row = locked(cycle_id)
    what = f"retraining cycle {cycle_id}"
    if row is None:
        raise TrainmasterError("not_found", what=what)
    permissions.require(actor, action, row.model.team_id, what=what)
    return row


def _record(kind: str, model: Model, actor: Actor, spec: Mapping[str, Any]) -> None:
    events.record(
        kind, subject_of(model), actor=actor.name, team=model.team_id, cause=model.name, data={"policy": dict(spec)},
        notify=(f"models:{model.team_id}",),
    )  # fmt: skip
