"""An administrator sets other targets and limits than the defaults."""

from __future__ import annotations

from django.db import transaction

from platform_core.errors import TrainmasterError
from platform_core.service_levels.objectives import BY_CODE, Objective, changed, percent
from platform_core.units import format_duration_ms
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.base.identity import now_ms
from webapp.events import services as events
from webapp.service_levels import queries
from webapp.service_levels.models import ObjectiveChange
from webapp.service_levels.queries import Entry
from webapp.service_levels.readings import register

__all__ = ["register", "reset", "set_objective"]


def set_objective(
    actor: Actor, code: str, *, target: float | None = None, limit_ms: int | None = None
) -> Entry:
    """Holds for all periods, the past ones too. What is not given stays. Raises request_invalid for other numbers."""
    permissions.require(actor, "platform.manage")
    before = queries.entry(code).objective
    try:
        after = changed(before, target, limit_ms)
    except ValueError as error:
        raise TrainmasterError("request_invalid", what=f"service level {code}", why=str(error)) from error
    if after == before:
        return queries.entry(code)
    default = BY_CODE[code]
    values = {
        "target": None if after.target == default.target else after.target,
        "limit_ms": None if after.limit_ms == default.limit_ms else after.limit_ms,
        "changed_by_id": accounts.user_key(actor.username), "changed_ms": now_ms(),
    }  # fmt: skip
    with transaction.atomic():
        ObjectiveChange.objects.update_or_create(code=code, defaults=values)
        _record(actor, code, f"from {_words(before)} to {_words(after)}")
    return queries.entry(code)


def reset(actor: Actor, code: str) -> Entry:
    """The default target and limit again."""
    permissions.require(actor, "platform.manage")
    queries.entry(code)
    with transaction.atomic():
        if ObjectiveChange.objects.filter(code=code).delete()[0]:
            _record(actor, code, f"to the default, {_words(BY_CODE[code])}")
    return queries.entry(code)


def _record(actor: Actor, code: str, cause: str) -> None:
    events.record(
        "ServiceLevelChanged", f"service-level:{code}", actor=actor.name, cause=cause,
        data={"name": BY_CODE[code].title},
    )  # fmt: skip


def _words(objective: Objective) -> str:
    limit = f" within {format_duration_ms(objective.limit_ms)}" if objective.limit_ms is not None else ""
    return f"{percent(objective.target)}{limit}"
