"""The pages of retraining: the models that have a policy, and the whole circle of one model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from platform_core.jobs.fields import fields_of
from platform_core.retraining import policy as policies
from platform_core.retraining.cycle import ASKS, DESCRIPTION, ENDED, CycleState
from platform_core.retraining.policy import RetrainingPolicy, Section
from platform_core.units import plural
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.accounts.queries import teams as team_views
from webapp.events.models import Event
from webapp.events.queries import story
from webapp.pages import fragments
from webapp.pages.retraining import circle
from webapp.pages.retraining.circle import Step
from webapp.registry import queries as registry
from webapp.registry.models import Model
from webapp.retraining import driving, queries
from webapp.retraining.models import Cycle, Policy

EVENTS = 12


@dataclass(frozen=True, slots=True)
class PolicyLine:
    policy: Policy
    triggers: str
    newest: Cycle | None


@dataclass(frozen=True, slots=True)
class PolicyListPage:
    subjects: str
    policies: Sequence[PolicyLine]
    without: Sequence[Model]  # models that the reader may give a policy


@dataclass(frozen=True, slots=True)
class FormField:
    name: str
    label: str
    hint: str
    value: Any
    problem: str
    kind: str  # truth, choice, text
    options: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RetrainingPage:
    """Fragments: live."""

    model: Model
    policy: Policy | None
    triggers: str
    cycle: Cycle | None  # the newest
    meaning: str
    asks: bool
    open: bool
    steps: Callable[[], Sequence[Step]]
    earlier: Sequence[Cycle]
    events: Callable[[], Sequence[Event]]
    sections: Sequence[tuple[str, Sequence[FormField]]]
    may_configure: bool
    may_start: bool
    may_decide: bool
    problems: Mapping[str, str]


@login_required
@require_GET
def policy_list(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    rows = queries.policies(actor.sees)
    newest = queries.newest(row.model_id for row in rows)
    teams = [view.slug for view in team_views(actor.sees)]
    leads = [slug for slug in teams if permissions.may(actor, "retraining.configure", slug)]
    known = {row.model_id for row in rows}
    page = PolicyListPage(
        subjects=" ".join(f"models:{slug}" for slug in teams),
        policies=[PolicyLine(row, triggers_of(row), newest.get(row.model_id)) for row in rows],
        without=[one for one in registry.living(leads).order_by("team", "name") if one.pk not in known],
    )
    return fragments.render(request, "retraining/list.html", page)


@login_required
@require_GET
def detail(request: HttpRequest, team: str, name: str) -> HttpResponse:
    return show(request, actor_of(request), team, name)


def show(
    request: HttpRequest, actor: Actor, team: str, name: str, problems: Mapping[str, str] | None = None,
    given: Mapping[str, Any] | None = None, status: int = 200,
) -> HttpResponse:  # fmt: skip
    """The page, with what was entered and the refusals where a form was refused."""
    model = model_for(actor, team, name)
    page = _page(actor, model, problems or {}, given)
    return fragments.render(request, "retraining/detail.html", page, status=status)


def model_for(actor: Actor, team: str, name: str) -> Model:
    permissions.require(actor, "retraining.view", team, what=f"model {team}/{name}")
    return registry.model_for(actor, team, name)


def _page(
    actor: Actor, model: Model, problems: Mapping[str, str], given: Mapping[str, Any] | None
) -> RetrainingPage:
    policy, cycles = queries.policy(model), queries.cycles(model)
    newest = cycles[0] if cycles else None
    return RetrainingPage(
        model=model,
        policy=policy,
        triggers=triggers_of(policy) if policy else "",
        cycle=newest,
        meaning=DESCRIPTION[CycleState(newest.state)] if newest else "",
        asks=newest is not None and newest.state in ASKS,
        open=newest is not None and newest.state not in ENDED,
        steps=lambda: _steps(newest) if newest else (),
        earlier=cycles[1:],
        events=lambda: story(f"retraining:{newest.id}", EVENTS)[::-1] if newest else (),
        sections=sections_of(given if given is not None else policy.spec if policy else {}, problems),
        may_configure=permissions.may(actor, "retraining.configure", model.team_id),
        may_start=policy is not None and permissions.may(actor, "retraining.start", model.team_id),
        may_decide=permissions.may(actor, "retraining.decide", model.team_id),
        problems=problems,
    )


def _steps(row: Cycle) -> list[Step]:
    return circle.steps_of(row, driving.awaited(row) if row.state == CycleState.EVALUATING else ())


def triggers_of(row: Policy) -> str:
    """After "begins": "after 10 min of drift or decay of accuracy, or when a version is 30 days old"."""
    policy = policies.load(row.spec)
    if not policy.enabled:
        return "when a person asks"
    measured = f"decay of {policy.decay_metric}" if policy.decay_metric else ""
    lasting = " or ".join(filter(None, ("drift" if policy.drift else "", measured)))
    parts = (
        (
            f"after {policy.for_minutes} min of {lasting}"
            if policy.for_minutes
            else f"as soon as there is {lasting}"
        )
        if lasting
        else "",
        f"when a version is {plural(policy.max_age_days, 'day')} old" if policy.max_age_days else "",
    )
    return ", or ".join(filter(None, parts))


def sections_of(values: Mapping[str, Any], problems: Mapping[str, str]) -> list[tuple[str, list[FormField]]]:
    """The fields of the form, as the core describes them."""
    fields = [(one.group, _field(one, values, problems)) for one in fields_of(RetrainingPolicy)]
    return [(section.value, [field for group, field in fields if group == section]) for section in Section]


def _field(one: Any, values: Mapping[str, Any], problems: Mapping[str, str]) -> FormField:
    schema = one.kind.schema
    kind = "choice" if "enum" in schema else "truth" if schema.get("type") == "boolean" else "text"
    value = values.get(one.name, one.plain_default)
    return FormField(
        one.name, one.label, one.help, value, problems.get(one.name, ""), kind, schema.get("enum", ())
    )


def truths() -> frozenset[str]:
    """The fields that are check boxes: one that is not sent is not checked."""
    return frozenset(
        one.name for one in fields_of(RetrainingPolicy) if one.kind.schema.get("type") == "boolean"
    )
