"""The machine of a sweep and its trials: one table for each, then `advance`.

A trial is submitted once and never lost: its number is its key, and `owed` names at any time, after a crash too, what
the shell has yet to do. An event that comes twice or too late changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from platform_core.errors import IllegalTransition
from platform_core.sweeps import states as ev
from platform_core.sweeps import trials
from platform_core.sweeps.definition import SweepSpec
from platform_core.sweeps.states import (
    Effect,
    Event,
    Step,
    Stop,
    Submit,
    Sweep,
    SweepState,
    Trial,
    TrialState,
)
from platform_core.units import HOUR_MS, MICRO_DOLLARS

_S, _T = SweepState, TrialState
_OPEN = {_S.RUNNING, _S.PAUSED, _S.OUT_OF_BUDGET}
_STAY = {state: {state} for state in _S}
_NEWS = {
    _S.RUNNING: {_S.RUNNING, _S.PAUSED, _S.FINISHED},
    _S.PAUSED: {_S.PAUSED, _S.FINISHED},
    _S.OUT_OF_BUDGET: {_S.OUT_OF_BUDGET},
    _S.FINISHED: {_S.FINISHED},
    _S.CANCELLED: {_S.CANCELLED},
}

_ROWS: dict[type[Event], dict[SweepState, set[SweepState]]] = {
    ev.Proposed: {_S.RUNNING: {_S.RUNNING}, _S.PAUSED: {_S.PAUSED}},
    ev.SpaceExhausted: _NEWS,
    ev.TrialSubmitted: _STAY,
    ev.TrialRefused: _STAY | {_S.RUNNING: {_S.PAUSED}},
    ev.TrialStarted: _STAY,
    # Pruned on its last trial, a sweep without jobs has finished.
    ev.TrialReported: _STAY | {state: {state, _S.FINISHED} for state in (_S.RUNNING, _S.PAUSED)},
    ev.TrialEnded: _NEWS,
    ev.TimePassed: _STAY | {state: {state, _S.OUT_OF_BUDGET} for state in (_S.RUNNING, _S.PAUSED)},
    ev.PauseRequested: {_S.RUNNING: {_S.PAUSED}, _S.PAUSED: {_S.PAUSED}},
    ev.ResumeRequested: {_S.PAUSED: {_S.RUNNING}, _S.RUNNING: {_S.RUNNING}},
    ev.BudgetChanged: {
        _S.RUNNING: {_S.RUNNING, _S.FINISHED, _S.OUT_OF_BUDGET},
        _S.PAUSED: {_S.PAUSED, _S.FINISHED, _S.OUT_OF_BUDGET},
        _S.OUT_OF_BUDGET: {_S.OUT_OF_BUDGET, _S.RUNNING, _S.FINISHED},
        _S.FINISHED: {_S.FINISHED, _S.RUNNING, _S.OUT_OF_BUDGET},
    },
    ev.CancelRequested: {state: {_S.CANCELLED} for state in _S if state is not _S.FINISHED},
}
TRANSITIONS = {
    (state, event): frozenset(targets) for event, row in _ROWS.items() for state, targets in row.items()
}


def begin(sweep_id: str, spec: SweepSpec, created_ms: int) -> Sweep:
    return Sweep(sweep_id, spec, created_ms)


def owed(sweep: Sweep) -> tuple[Effect, ...]:
    """All that the shell has yet to do: submissions as far as the parallelism allows, and jobs to stop."""
    stops = [
        Stop(trial)
        for trial in sweep.trials
        if trial.job and not trial.settled and trial.state in (_T.PRUNED, _T.CANCELLED)
    ]
    if sweep.state is not _S.RUNNING or not sweep.spec.runs_jobs:
        return tuple(stops)
    free = max(0, sweep.spec.parallel - sweep.active)
    proposed = [trial for trial in sweep.trials if trial.state is _T.PROPOSED]
    return (*stops, *(Submit(trial) for trial in proposed[:free]))


def advance(sweep: Sweep, event: ev.SweepEvent) -> Step:
    """The sweep after the event, and all that is owed then. No news: the same sweep.

    Raises IllegalTransition for a request that the state does not allow.
    """
    allowed = TRANSITIONS.get((sweep.state, type(event)))
    if allowed is None:
        raise IllegalTransition(
            f"sweep {sweep.id}", sweep.state, _VERBS.get(type(event), type(event).__name__)
        )
    after = _settled(_APPLY[type(event)](sweep, event), event)
    if after == sweep:
        return Step(sweep, owed(sweep))
    if after.state not in allowed:
        story = (
            f"{type(event).__name__} led {sweep.id} from {sweep.state} to {after.state}, against the table"
        )
        raise IllegalTransition(f"sweep {sweep.id}", sweep.state, type(event).__name__, story)
    after = replace(after, version=sweep.version + 1)
    return Step(after, owed(after))


_VERBS: dict[type[Event], str] = {
    ev.Proposed: "another trial", ev.PauseRequested: "pause", ev.ResumeRequested: "resume",
    ev.CancelRequested: "cancel", ev.BudgetChanged: "another budget",
}  # fmt: skip


# -- what an event does


def _proposed(sweep: Sweep, event: ev.Proposed) -> Sweep:
    limit = sweep.spec.budget.trials
    if event.number != len(sweep.trials) + 1 or (limit and len(sweep.trials) >= limit):
        return sweep
    trial = Trial(event.number, event.parameters, proposed_ms=event.at_ms)
    return replace(sweep, trials=(*sweep.trials, trial))


def _refused(sweep: Sweep, event: ev.TrialRefused) -> Sweep:
    trial = trials.find(sweep, event.number)
    if sweep.state is not _S.RUNNING or trial is None or trial.state is not _T.PROPOSED:
        return sweep
    reason = f"trial {event.number} was not accepted: {event.why.rstrip('.')}; resume the sweep to try again"
    return replace(sweep, state=_S.PAUSED, reason=reason)


def _ended(sweep: Sweep, event: ev.TrialEnded) -> Sweep:
    def change(trial: Trial) -> Trial:
        if trial.settled:
            return trial
        changes: dict[str, Any] = {"settled": True, "ended_ms": event.at_ms}
        if event.value is not None:
            changes |= {"value": event.value, "step": event.step}
        if not trial.ended:
            lacks = event.outcome is _T.SUCCEEDED and (event.value is None or event.value != event.value)
            why = f"it ended without a value of {sweep.spec.objective.metric}" if lacks else event.why
            changes |= {"state": _T.FAILED if lacks else event.outcome, "reason": why}
        return replace(trial, **changes)

    after = trials.changed(sweep, event, change)
    if after == sweep:
        return sweep
    trial, before = trials.find(after, event.number), trials.find(sweep, event.number)
    assert trial is not None  # _with has changed it
    assert before is not None
    if before.ended or trial.state is _T.CANCELLED:
        return after
    failures = sweep.failures + 1 if trial.state is _T.FAILED else 0
    after = replace(after, failures=failures)
    if failures < sweep.spec.max_failures or sweep.state is not _S.RUNNING:
        return after
    row = "a trial" if failures == 1 else f"{failures} trials in a row"
    return replace(
        after,
        state=_S.PAUSED,
        reason=f"{row} failed, the last one because {trial.reason or 'its job failed'}",
    )


def _time_passed(sweep: Sweep, event: ev.TimePassed) -> Sweep:
    return replace(sweep, gpu_ms=event.gpu_ms, micro_dollars=event.micro_dollars)


def _paused(sweep: Sweep, event: ev.PauseRequested) -> Sweep:
    if sweep.state is _S.PAUSED:
        return sweep
    return replace(sweep, state=_S.PAUSED, reason=f"paused by {event.actor.removeprefix('user:')}")


def _resumed(sweep: Sweep, event: ev.ResumeRequested) -> Sweep:
    return sweep if sweep.state is _S.RUNNING else replace(sweep, state=_S.RUNNING, reason="", failures=0)


def _budget_changed(sweep: Sweep, event: ev.BudgetChanged) -> Sweep:
    after = replace(sweep, spec=replace(sweep.spec, budget=event.budget))
    if after == sweep or sweep.state not in (_S.OUT_OF_BUDGET, _S.FINISHED):
        return after
    return replace(after, state=_S.RUNNING, reason="", ended_ms=None)


def _cancelled(sweep: Sweep, event: ev.CancelRequested) -> Sweep:
    if sweep.state is _S.CANCELLED:
        return sweep
    why = f"cancelled by {event.actor.removeprefix('user:')}"
    return replace(trials.stopped(sweep, event, why), state=_S.CANCELLED, reason=why, ended_ms=event.at_ms)


_APPLY: dict[type[Event], Callable[[Sweep, Any], Sweep]] = {
    ev.Proposed: _proposed,
    ev.SpaceExhausted: lambda sweep, event: replace(sweep, exhausted=True),
    ev.TrialSubmitted: trials.submitted,
    ev.TrialRefused: _refused,
    ev.TrialStarted: trials.started,
    ev.TrialReported: trials.reported,
    ev.TrialEnded: _ended,
    ev.TimePassed: _time_passed,
    ev.PauseRequested: _paused,
    ev.ResumeRequested: _resumed,
    ev.BudgetChanged: _budget_changed,
    ev.CancelRequested: _cancelled,
}


# -- what follows from it


def _settled(sweep: Sweep, event: Event) -> Sweep:
    """Ends the sweep when its budget is spent, or when all its trials have ended and no more will come."""
    if sweep.state in (_S.RUNNING, _S.PAUSED) and (why := spent(sweep, event.at_ms)):
        if not isinstance(event, ev.TimePassed | ev.BudgetChanged):
            return sweep  # the next look at the clock will see it
        stopping = ev.TimePassed(at_ms=event.at_ms, gpu_ms=sweep.gpu_ms, micro_dollars=sweep.micro_dollars)
        stopped = trials.stopped(sweep, stopping, why)
        return replace(stopped, state=_S.OUT_OF_BUDGET, reason=why, ended_ms=event.at_ms)
    limit = sweep.spec.budget.trials
    complete = sweep.exhausted or (limit > 0 and len(sweep.trials) >= limit)
    if (
        sweep.state in _OPEN - {_S.OUT_OF_BUDGET}
        and complete
        and all(trial.settled for trial in sweep.trials)
    ):
        return replace(sweep, state=_S.FINISHED, reason="", ended_ms=event.at_ms)
    return sweep


def spent(sweep: Sweep, at_ms: int) -> str:
    """Which part of the budget is used up; '' while none is."""
    budget = sweep.spec.budget
    if budget.gpu_ms and sweep.gpu_ms >= budget.gpu_ms:
        return f"used {sweep.gpu_ms / HOUR_MS:.3g} of {budget.gpu_ms / HOUR_MS:g} GPU-hours"
    if budget.micro_dollars and sweep.micro_dollars >= budget.micro_dollars:
        return (
            f"cost ${sweep.micro_dollars / MICRO_DOLLARS:.2f} of ${budget.micro_dollars / MICRO_DOLLARS:.2f}"
        )
    if budget.wall_ms and at_ms - sweep.created_ms >= budget.wall_ms:
        return f"its {budget.wall_ms / HOUR_MS:g} h are over"
    return ""


def best(sweep: Sweep) -> Trial | None:
    """The trial with the best value among those that ran to their end; the earlier one of two equals."""
    rank = sweep.spec.objective.rank
    having = [
        (rank(t.value), t.number) for t in sweep.trials if t.state is _T.SUCCEEDED and t.value is not None
    ]
    return trials.find(sweep, min(having)[1]) if having else None
