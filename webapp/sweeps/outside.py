"""Ask and tell: a program outside chooses settings, or evaluates them, and hears when a trial should stop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from platform_core.errors import TrainmasterError
from platform_core.sweeps import states as ev
from platform_core.sweeps.definition import Method
from platform_core.sweeps.space import why_not
from platform_core.sweeps.stopping import reached
from webapp.accounts.permissions import Actor
from webapp.base.identity import now_ms
from webapp.sweeps import driving, stepping
from webapp.sweeps.models import Sweep, Trial
from webapp.sweeps.objective import chosen
from webapp.sweeps.services import check_key, found

_OUTCOMES = (ev.TrialState.SUCCEEDED, ev.TrialState.FAILED, ev.TrialState.CANCELLED)


def ask(
    actor: Actor, sweep_id: str, parameters: Mapping[str, Any] | None = None, key: str | None = None
) -> Trial:
    """The next trial: with the parameters that the program chose, or with those that the method of the sweep chooses.

    In a sweep with a job the trial is submitted; otherwise the program evaluates it and tells the values. The same key
    gives the same trial again.
    """
    check_key(key, "key")
    row = found(actor, sweep_id, "sweep.steer")
    if (earlier := _asked_before(row, key)) is not None:
        return earlier
    value = stepping.value_of(row)
    _check_room(value)
    event, more = _chosen(value, parameters) if parameters is not None else _sampled(row, value)
    with transaction.atomic():
        row = stepping.locked(sweep_id)
        if (earlier := _asked_before(row, key)) is not None:
            return earlier
        value = stepping.value_of(row)
        _check_room(value)
        number = len(value.trials) + 1
        if event.number != number and parameters is None:
            why = "another program asked at the same moment; ask again"
            raise TrainmasterError("request_invalid", what="the request", why=why)
        event = ev.Proposed(at_ms=event.at_ms, number=number, parameters=event.parameters)
        begun = [] if value.spec.runs_jobs else [ev.TrialSubmitted(at_ms=now_ms(), number=number, job="")]
        stepping.apply(row, [event, *begun], actor=actor.name, more={number: {**more, "ask_key": key}})
        return Trial.objects.select_related("job").get(sweep=row.pk, number=number)


def _asked_before(row: Sweep, key: str | None) -> Trial | None:
    return Trial.objects.filter(sweep=row.pk, ask_key=key).first() if key else None


def _check_room(value: ev.Sweep) -> None:
    """Raises illegal_transition or request_invalid where the sweep takes no trial now."""
    if value.state is not ev.SweepState.RUNNING:
        why = f"it is {value.state}" + (f" ({value.reason})" if value.reason else "")
        raise TrainmasterError("illegal_transition", f"Sweep {value.id} takes no trial: {why}")
    limit, count = value.spec.budget.trials, len(value.trials)
    if value.exhausted or (limit and count >= limit):
        done = (
            f"{count} of {limit} trials are used" if limit else f"all {count} settings of its grid were tried"
        )
        raise TrainmasterError(
            "illegal_transition", f"Sweep {value.id} takes no trial: {done}; raise the budget of trials"
        )
    if not value.spec.runs_jobs and value.active >= value.spec.parallel:
        raise TrainmasterError(
            "illegal_transition",
            f"Sweep {value.id} takes no trial: {value.active} are being evaluated and parallel is "
            f"{value.spec.parallel}; tell the value of one first",
        )


def _chosen(value: ev.Sweep, parameters: Mapping[str, Any]) -> tuple[ev.Proposed, dict[str, Any]]:
    if why := why_not(value.spec.space, parameters):
        raise TrainmasterError("request_invalid", what="the setting", why=why)
    setting = tuple(sorted(parameters.items()))
    return ev.Proposed(at_ms=now_ms(), number=len(value.trials) + 1, parameters=setting), {}


def _sampled(row: Sweep, value: ev.Sweep) -> tuple[ev.Proposed, dict[str, Any]]:
    if value.spec.method is Method.EXTERNAL:
        why = "they are missing; the method of the sweep is external, so the program chooses them"
        raise TrainmasterError("request_invalid", what="parameters", why=why)
    event, more = driving.next_proposal(row, value)
    if isinstance(event, ev.Proposed):
        return event, more[event.number]
    with transaction.atomic():
        stepping.apply(stepping.locked(row.pk), [event])
    raise TrainmasterError("illegal_transition", f"Sweep {row.pk} takes no trial: its whole grid was tried")


def tell(
    actor: Actor,
    sweep_id: str,
    number: int,
    *,
    points: Sequence[tuple[int, float]] = (),
    value: float | None = None,
    state: str | None = None,
) -> Trial:
    """What a program measured of a trial: points of its curve, and at the end its value, or a state such as failed.

    Told again it changes nothing. The answer says whether the trial was pruned.
    """
    found(actor, sweep_id, "sweep.steer")
    outcome = _outcome(state, value)
    with transaction.atomic():
        row = stepping.locked(sweep_id)
        sweep = stepping.value_of(row)
        trial = sweep.trials[number - 1] if 0 < number <= len(sweep.trials) else None
        if trial is None:
            raise TrainmasterError("not_found", what=f"trial {number} of sweep {sweep_id}")
        if sweep.spec.runs_jobs:
            why = f"the job of trial {number} reports {sweep.spec.objective.metric} itself"
            raise TrainmasterError("request_invalid", what="the value", why=why)
        stepping.apply(row, list(_told(sweep, trial, sorted(points), outcome, value)), actor=actor.name)
        return Trial.objects.select_related("job").get(sweep=row.pk, number=number)


def _outcome(state: str | None, value: float | None) -> ev.TrialState | None:
    if state is None:
        return None if value is None else ev.TrialState.SUCCEEDED
    if state not in _OUTCOMES:
        raise TrainmasterError(
            "request_invalid", what=f"state {state[:40]!r}", why=f"it must be one of {', '.join(_OUTCOMES)}"
        )
    return ev.TrialState(state)


def _told(
    sweep: ev.Sweep,
    trial: ev.Trial,
    points: Sequence[tuple[int, float]],
    outcome: ev.TrialState | None,
    value: float | None,
) -> list[ev.SweepEvent]:
    now, objective = now_ms(), sweep.spec.objective
    told: list[ev.SweepEvent] = [ev.TrialStarted(at_ms=now, number=trial.number)]
    last = trial.reports[-1][0] if trial.reports else 0
    if rungs := reached(sweep.spec.stopping, trial.number, last, points):
        told.append(ev.TrialReported(at_ms=now, number=trial.number, reports=tuple(rungs)))
    if outcome is None:
        return told
    step: int | None = points[-1][0] if points else None
    if value is None and points and outcome is ev.TrialState.SUCCEEDED:
        step, value = chosen(points, objective)
    if value is not None and not math.isfinite(value):
        outcome, value = ev.TrialState.FAILED, None
    why = "" if outcome is ev.TrialState.SUCCEEDED else f"told as {outcome}"
    told.append(
        ev.TrialEnded(at_ms=now, number=trial.number, outcome=outcome, value=value, step=step, why=why)
    )
    return told
