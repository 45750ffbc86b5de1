"""A look at one model in production: since when its conditions hold, and whether a cycle begins."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from django.db import IntegrityError, transaction

from platform_core.errors import TrainmasterError
from platform_core.ids import CYCLE
from platform_core.retraining import cycle as machine
from platform_core.retraining.cycle import ENDED
from platform_core.retraining.policy import RetrainingPolicy
from platform_core.retraining.triggers import WEEK_MS, Begin, History, Hold, Reading, Trigger, due, observe
from webapp.accounts import queries as accounts
from webapp.base.identity import new_id, now_ms
from webapp.base.lease import Fence
from webapp.quotas import queries as quotas
from webapp.registry import queries as registry
from webapp.retraining import letters, recipe
from webapp.retraining.mapping import policy_of, watched_of
from webapp.retraining.models import Cycle, Policy
from webapp.retraining.stepping import record
from webapp.serving import queries as serving

if TYPE_CHECKING:
    from webapp.registry.models import ModelVersion
    from webapp.serving.models import Endpoint


@dataclass(frozen=True, slots=True)
class Production:
    version: ModelVersion
    endpoint: Endpoint | None


def production_of(row: Policy) -> Production:
    """Raises request_invalid where there is none."""
    policy, model = policy_of(row), row.model
    what = f"the retraining policy of {model}"
    if policy.endpoint:
        endpoint = serving.find(model.team_id, policy.endpoint, None)
        if endpoint is None:
            why = f"the team has no endpoint {policy.endpoint}"
            raise TrainmasterError("request_invalid", what=what, why=why)
        if endpoint.stable.model_id != model.pk:
            why = f"endpoint {policy.endpoint} serves {endpoint.stable.model.name}"
            raise TrainmasterError("request_invalid", what=what, why=why)
        return Production(endpoint.stable, endpoint)
    version = registry.in_production(model)
    if version is None:
        why = "no version of it is in the stage production"
        raise TrainmasterError("request_invalid", what=what, why=why)
    return Production(version, None)


def look(row: Policy, fence: Fence = transaction.atomic) -> None:
    now, policy = now_ms(), policy_of(row)
    watched = watched_of(row)
    decision: Begin | Hold
    try:
        production = production_of(row)
        made = recipe.of(production.version)
    except TrainmasterError as error:
        _keep(row, fence, asdict(watched), Hold((error.sentence,)), now)
        return
    reading = reading_of(policy, production)
    watched = observe(watched, policy, reading, now)
    decision = due(policy, watched, reading, history_of(row, made, now), now)
    with fence():
        if isinstance(decision, Begin):
            begin(row, production, decision, now)
            decision = Hold()
        _keep(row, transaction.atomic, asdict(watched), decision, now)


def reading_of(policy: RetrainingPolicy, production: Production) -> Reading:
    version, endpoint = production.version, production.endpoint
    reading = Reading(version.id, version.created_ms)
    if endpoint is not None and policy.drift:
        reading = replace(reading, drifted=serving.drifted(endpoint))
    if policy.decay_suite:
        measured = registry.measured(version, policy.decay_suite, policy.decay_metric)
        reading = replace(reading, decay=measured)
    elif policy.decay_metric and endpoint is not None:
        reading = replace(reading, decay=serving.online(endpoint, version.id).value(policy.decay_metric))
    return reading


def history_of(row: Policy, made: recipe.Recipe, now: int) -> History:
    cycles = list(Cycle.objects.filter(model=row.model_id).order_by("-began_ms")[:200])
    recent = [one.job_id for one in cycles if one.job_id and one.began_ms > now - WEEK_MS]
    spent = sum(cost.gpu_ms for cost in quotas.costs_of_jobs(recent, now).values())
    return History(
        tuple(one.began_ms for one in cycles), spent, made.gpu_ms, made.new_data,
        any(one.state not in ENDED for one in cycles),
    )  # fmt: skip


def begin(row: Policy, production: Production, decision: Begin, now: int, asked_by: str = "") -> Cycle | None:
    """Inside a transaction. None where somebody else began one between our look and our insert."""
    policy = policy_of(row)
    key = new_id(CYCLE)
    value = machine.begin(
        key, approve_training=policy.approve_training, approve_canary=policy.approve_canary,
        has_endpoint=production.endpoint is not None,
    )  # fmt: skip
    try:
        with transaction.atomic():
            cycle = Cycle.objects.create(
                id=key, model=row.model, spec=row.spec, author=row.author, trigger=decision.trigger,
                cause=decision.sentence, state=value.state, base=production.version, endpoint=production.endpoint,
                asked_by_id=_person(asked_by), began_ms=now, since_ms=now,
            )  # fmt: skip
    except IntegrityError:
        return None
    record(cycle, "RetrainingBegun", f"user:{asked_by}" if asked_by else "system", decision.sentence)
    letters.tell(cycle)
    return cycle


def _person(username: str) -> int | None:
    return accounts.user_key(username) if username else None


def _keep(row: Policy, fence: Fence, watched: dict[str, object], hold: Hold, now: int) -> None:
    trigger = hold.trigger.value if isinstance(hold.trigger, Trigger) else ""
    held = {"trigger": trigger, "sentence": hold.sentence, "reasons": list(hold.reasons)}
    with fence():
        Policy.objects.filter(pk=row.pk, changed_ms=row.changed_ms).update(
            watched=watched, held=held, looked_ms=now
        )
